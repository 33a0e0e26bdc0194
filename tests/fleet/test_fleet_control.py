"""A fleet in another process: injected faults, and a process that was suspended until all its sessions expired."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from evenkeel.fleet.http_server import FleetControl
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.model.service_unit import ServiceUnitState
from support.fleets import read_record, running_process, write_release
from support.waiting import wait_for

B1, B2, B3 = (f"b0{number}.fleet:8080" for number in (1, 2, 3))


def registration_czxid(client: KazooClient, root: str, broker_id: str) -> int:
    stat = client.exists(f"{root}/loadbalance/brokers/{broker_id}")
    return stat.czxid if stat else 0


def bundles_of(client: KazooClient, base: str) -> list[str]:
    namespaces = [f"{t}/{n}" for t in client.get_children(base) for n in client.get_children(f"{base}/{t}")]
    planned = [name for name in namespaces if not name.startswith("pulsar/")]
    return [f"{name}/{part}" for name in planned for part in client.get_children(f"{base}/{name}")]


def test_faults_reach_a_fleet_in_another_process(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient, tmp_path: Path
) -> None:
    with running_process(zookeeper, tmp_path, "--root", pulsar_root, "--brokers", "3", "--bundles", "12") as document:
        control = FleetControl(document["control"])
        first = registration_czxid(client, pulsar_root, B2)
        control.kill_broker(B2)
        assert not control.state()["brokers"][B2]["is_running"]
        wait_for(lambda: registration_czxid(client, pulsar_root, B2) == 0, "the registration is gone")
        control.restart_broker(B2)
        second = registration_czxid(client, pulsar_root, B2)
        assert second > first
        control.expire_session(B2)
        wait_for(lambda: registration_czxid(client, pulsar_root, B2) > second, "registered with another session")
        assert control.state()["brokers"][B2]["sessions_lost"] == 1
        control.set_session_policy(B3, "shutdown")
        control.expire_session(B3)
        wait_for(lambda: not control.state()["brokers"][B3]["is_running"], "the broker shut down")
        control.set_hand_over_delay(0)
        assert control.state()["hand_over_delay_s"] == 0
        with pytest.raises(InputError, match="no broker b99 in the fleet"):
            control.kill_broker("b99")
        with pytest.raises(InputError, match="unknown session policy 'rest': use reconnect or shutdown"):
            control.set_session_policy(B1, "rest")
        with pytest.raises(InputError, match="hand-over delay -1.0 s is out of range"):
            control.set_hand_over_delay(-1.0)
    with pytest.raises(UnavailableError, match="did not respond"):
        control.state()


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_fleet_suspended_past_all_its_sessions_recovers(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient, tmp_path: Path, kind: str
) -> None:
    options = ("--root", pulsar_root, "--brokers", "3", "--bundles", "12", "--load-manager", kind)
    quick = ("--session-timeout-s", "2", "--clients-look-up-after-s", "0.2", "--stable-session-s", "1")
    with running_process(zookeeper, tmp_path, *options, *quick) as document:
        control = FleetControl(document["control"])
        before = {b: s["session_id"] for b, s in control.state()["brokers"].items()}
        base = f"{pulsar_root}/{'service_unit_state' if kind == 'extensible' else 'namespace'}"
        bundles = sorted(bundles_of(client, base))
        with stopped(document["pid"]):
            wait_for(lambda: not client.get_children(f"{pulsar_root}/loadbalance/brokers"), "all sessions expired")

        def are_back() -> bool:
            state = control.state()
            are_new = all(s["session_id"] not in (0, before[b]) for b, s in state["brokers"].items())
            return are_new and state["leader"] is not None

        wait_for(are_back, "every broker has another session, and one leads")
        wait_for(lambda: len(client.get_children(f"{pulsar_root}/loadbalance/brokers")) == 3, "all are registered")
        wait_for(lambda: sorted(bundles_of(client, base)) == bundles, "every bundle has its node")
        if kind == "extensible":
            show_a_transfer(client, pulsar_root, bundles[0])


def show_a_transfer(client: KazooClient, root: str, bundle: str) -> None:
    found = read_record(client, root, bundle)
    assert found is not None
    destination = next(broker for broker in (B1, B2) if broker != found[0].destination)
    before, _ = write_release(client, root, bundle, destination)

    def has_arrived() -> bool:
        now = read_record(client, root, bundle)
        return now is not None and now[0].state is ServiceUnitState.OWNED and now[0].version_id > before.version_id

    wait_for(has_arrived, "the fleet sees and acts")


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Suspend a process while the block runs."""
    os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(pid, signal.SIGCONT)
        time.sleep(0.1)
