"""Fleets for tests: quick hand-overs, quick clients, and ways to look at what the brokers wrote."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from kazoo.client import KazooClient

from evenkeel.fleet.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.fleet.fleet import Fleet
from evenkeel.fleet.settings import FleetSettings
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState

SETTLE_TIMEOUT_S = 20.0
POLL_INTERVAL_S = 0.02
QUICK: dict[str, Any] = {
    "brokers": 3,
    "bundles": 24,
    "session_timeout_s": 6.0,
    "hand_over_delay_s": 0.01,
    "clients_look_up_after_s": 0.1,
    "report_interval_s": 0.2,
    "monitor_interval_s": 0.5,
    "in_flight_limit_s": 5.0,
    "admin_timeout_s": 10.0,
}


@contextmanager
def running_fleet(zookeeper: EmbeddedZooKeeper, root: str, **settings: Any) -> Iterator[Fleet]:
    """A fleet under a root of the test's own; prints its settings, seed included, for a failed test to show."""
    wanted = FleetSettings(root=root, **{**QUICK, **settings})
    print(wanted)
    with Fleet(wanted, zookeeper.connect_string) as fleet:
        yield fleet


def wait_for(is_met: Callable[[], bool], what: str, timeout_s: float = SETTLE_TIMEOUT_S) -> None:
    """Poll until a condition holds; fail with a sentence if it does not in time."""
    deadline = time.monotonic() + timeout_s
    while not is_met():
        assert time.monotonic() < deadline, f"not in {timeout_s:g} s: {what}"
        time.sleep(POLL_INTERVAL_S)


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
