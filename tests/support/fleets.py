"""Fleets for tests: fast hand-overs and clients, in this process or in a separate one, and what their brokers wrote."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from evenkeel.fleet.fleet import Fleet
from evenkeel.fleet.settings import FleetSettings
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.local.supervised import SupervisedProcess
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from support.waiting import scaled, wait_for

START_TIMEOUT_S = 100.0
QUICK: dict[str, Any] = {
    "brokers": 3,
    "bundles": 24,
    "session_timeout_s": scaled(6.0),
    "hand_over_delay_s": 0.01,
    "clients_look_up_after_s": 0.1,
    "report_interval_s": 0.2,
    "monitor_interval_s": 0.5,
    "in_flight_limit_s": scaled(5.0),
    "admin_timeout_s": scaled(10.0),
}


@contextmanager
def running_fleet(zookeeper: EmbeddedZooKeeper, root: str, **settings: Any) -> Iterator[Fleet]:
    """A fleet under a root of the test's own; prints its settings, seed included, for a failed test to show."""
    wanted = FleetSettings(root=root, **{**QUICK, **settings})
    print(wanted)
    with Fleet(wanted, zookeeper.connect_string) as fleet:
        yield fleet


def read_json(client: KazooClient, path: str) -> Any:
    """The document of a node; None for an empty one."""
    data = client.get(path)[0]
    return json.loads(data) if data else None


def read_record(client: KazooClient, root: str, bundle: str) -> tuple[ServiceUnitRecord, int] | None:
    """A bundle's record and the version of its node; None where there is no node."""
    path = f"{root}/service_unit_state/{bundle}"
    if client.exists(path) is None:
        return None
    data, stat = client.get(path)
    return ServiceUnitRecord.decode(data, path), stat.version


def write_release(
    client: KazooClient, root: str, bundle: str, destination: str | None
) -> tuple[ServiceUnitRecord, ServiceUnitRecord]:
    """Release a bundle as a foreign writer does, by CAS; returns the record before and the one written."""
    found = read_record(client, root, bundle)
    assert found is not None
    before, version = found
    record = ServiceUnitRecord(
        ServiceUnitState.RELEASING,
        int(time.time() * 1000),
        before.version_id + 1,
        destination=destination,
        source=before.destination,
    )
    client.set(f"{root}/service_unit_state/{bundle}", record.encode(), version=version)
    return before, record


def first_bundle(fleet: Fleet, owner: str) -> str:
    """Some bundle of a broker, always the same."""
    return owned_bundles(fleet, owner)[0]


def owned_bundles(fleet: Fleet, owner: str) -> list[str]:
    """The bundles that a broker serves now, without its heartbeat."""
    return sorted(bundle for bundle, broker in fleet.owners().items() if broker == owner)


def start_process(zookeeper: EmbeddedZooKeeper, folder: Path, *options: str) -> tuple[SupervisedProcess, Path]:
    """A fleet's process, not yet started, and the file that tells when it serves."""
    ready = folder / "ready.json"
    command = [sys.executable, "-m", "evenkeel.fleet", "--zookeeper", zookeeper.connect_string]
    return SupervisedProcess([*command, "--ready-file", str(ready), *options], folder / "fleet.log"), ready


def wait_ready(ready: Path) -> dict[str, Any]:
    """What a fleet says of itself once it serves."""
    wait_for(ready.exists, "the fleet is ready", START_TIMEOUT_S)
    document: dict[str, Any] = json.loads(ready.read_text())
    return document


@contextmanager
def running_process(zookeeper: EmbeddedZooKeeper, folder: Path, *options: str) -> Iterator[dict[str, Any]]:
    """A fleet that serves while the block runs: its ready document."""
    process, ready = start_process(zookeeper, folder, *options)
    with process:
        yield wait_ready(ready)
