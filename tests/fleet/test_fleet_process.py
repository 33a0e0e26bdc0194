"""`python -m evenkeel.fleet` as a process: small and large, how it starts, stops and fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from kazoo.client import KazooClient

from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper, find_free_port
from evenkeel.model.service_unit import ServiceUnitState
from support.fleets import read_record, running_fleet, start_process, wait_ready, write_release
from support.waiting import scaled, wait_for

RUN_TIMEOUT_S = scaled(60.0)
MEMORY_LIMIT_KIB = 150_000


def owner_of(client: KazooClient, root: str, bundle: str) -> str | None:
    found = read_record(client, root, bundle)
    return found[0].owner if found else None


def test_process_writes_its_ready_file_and_removes_it_when_it_stops(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient, tmp_path: Path
) -> None:
    process, ready = start_process(
        zookeeper, tmp_path, "--root", pulsar_root, "--brokers", "3", "--bundles", "12", "--load-manager", "modular"
    )
    process.start()
    document = wait_ready(ready)
    assert list(document["brokers"]) == ["b01.fleet:8080", "b02.fleet:8080", "b03.fleet:8080"]
    assert httpx.get(f"{document['brokers']['b01.fleet:8080']}/admin/v2/brokers").json() == list(document["brokers"])
    assert process.stop(grace_s=scaled(30)) == 0
    assert not ready.exists()
    assert client.get_children(f"{pulsar_root}/loadbalance/brokers") == []


def test_one_process_runs_fifty_brokers_and_five_thousand_bundles(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient, tmp_path: Path
) -> None:
    process, ready = start_process(
        zookeeper, tmp_path, "--root", pulsar_root, "--brokers", "50", "--bundles", "5000", "--session-timeout-s", "30"
    )
    with process:
        document = wait_ready(ready)
        brokers = list(document["brokers"])
        assert sorted(client.get_children(f"{pulsar_root}/loadbalance/brokers")) == brokers
        base = f"{pulsar_root}/service_unit_state"
        namespaces = [f"{t}/{n}" for t in client.get_children(base) for n in client.get_children(f"{base}/{t}")]
        bundles = [f"{name}/{part}" for name in namespaces for part in client.get_children(f"{base}/{name}")]
        assert len(bundles) == 5000
        moved = next(bundle for bundle in bundles if owner_of(client, pulsar_root, bundle) == brokers[0])
        before, _ = write_release(client, pulsar_root, moved, brokers[9])

        def has_arrived() -> bool:
            found = read_record(client, pulsar_root, moved)
            return found is not None and found[0].version_id == before.version_id + 3

        wait_for(has_arrived, f"{moved} is owned by {brokers[9]}")
        found = read_record(client, pulsar_root, moved)
        assert found is not None
        assert (found[0].state, found[0].destination) == (ServiceUnitState.OWNED, brokers[9])
        command = ["ps", "-o", "rss=", "-p", str(document["pid"])]
        resident = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        assert int(resident) < MEMORY_LIMIT_KIB


def test_fleet_starts_on_the_nodes_of_an_earlier_one(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    b1, b3 = "b01.fleet:8080", "b03.fleet:8080"
    with running_fleet(zookeeper, pulsar_root) as fleet:
        moved, split = sorted(bundle for bundle, owner in fleet.owners().items() if owner == b1)[:2]
        write_release(client, pulsar_root, moved, b3)
        wait_for(lambda: fleet.owner_of(moved) == b3, f"{moved} is owned by {b3}")
        assert (
            httpx.put(f"{fleet.web_url(b1)}/admin/v2/namespaces/{split}/split", timeout=scaled(20)).status_code == 204
        )
        before = fleet.owners()
    with running_fleet(zookeeper, pulsar_root) as fleet:
        assert fleet.owners() == before


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--brokers", "0"], "error: fleet setting brokers = 0 is not valid: use 1 to 999"),
        (["--root", "pulsar"], "error: fleet setting root = 'pulsar' is not valid"),
    ],
)
def test_wrong_options_are_reported_in_one_line(options: list[str], sentence: str) -> None:
    command = [sys.executable, "-m", "evenkeel.fleet", "--zookeeper", f"127.0.0.1:{find_free_port()}", *options]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith(sentence)
    assert ended.stderr.count("\n") == 1


def test_absent_zookeeper_is_reported_in_one_line() -> None:
    hosts = f"127.0.0.1:{find_free_port()}"
    command = [sys.executable, "-m", "evenkeel.fleet", "--zookeeper", hosts]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False)
    assert ended.returncode == 1
    assert ended.stderr.splitlines() == [
        f"error: ZooKeeper at {hosts} did not respond within 10 s: check the address and the server"
    ]


@pytest.mark.zookeeper
def test_fleet_stops_in_time_although_zookeeper_is_gone(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        process, ready = start_process(server, tmp_path, "--brokers", "3", "--bundles", "12")
        process.start()
        wait_ready(ready)
    assert process.stop(grace_s=scaled(30)) == 0
