"""Extensible brokers that lose a session close their bundles; the records stay until a stable leader decides."""

from __future__ import annotations

import time

import httpx
from kazoo.client import KazooClient

from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.service_unit import ServiceUnitState
from support.fleets import first_bundle, owned_bundles, read_record, running_fleet, write_release
from support.waiting import scaled, wait_for

B1 = "b01.fleet:8080"
LONG_S = 3600.0


def follower(fleet: Fleet) -> str:
    return next(broker for broker in reversed(fleet.broker_ids) if broker != fleet.leader())


def topics(fleet: Fleet, broker_id: str) -> dict[str, object]:
    found: dict[str, object] = httpx.get(f"{fleet.web_url(broker_id)}/admin/v2/broker-stats/topics").json()
    return found


def expire_all(fleet: Fleet, client: KazooClient) -> None:
    """Expire every broker's session, and wait until all are registered again and there is a leader."""
    before = {b: s["session_id"] for b, s in fleet.state()["brokers"].items()}
    for broker_id in fleet.broker_ids:
        fleet.expire_session(broker_id)

    def are_back() -> bool:
        state = fleet.state()
        sessions = {b: s["session_id"] for b, s in state["brokers"].items()}
        stats = {b: client.exists(f"{fleet.settings.root}/loadbalance/brokers/{b}") for b in fleet.broker_ids}
        is_new = all(sessions[b] not in (0, before[b]) for b in sessions)
        is_registered = all(stat and stat.ephemeralOwner == sessions[b] for b, stat in stats.items())
        return is_new and is_registered and state["leader"] is not None

    wait_for(are_back, "all brokers are back")


def test_broker_that_lost_its_session_closes_its_bundles_and_the_stable_leader_gives_them_away(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, new_session_delay_s=LONG_S) as fleet:
        victim = follower(fleet)
        bundles = owned_bundles(fleet, victim)
        fleet.expire_session(victim)
        assert topics(fleet, victim) == {}
        lookup_url = f"{fleet.web_url(victim)}/lookup/v2/topic/persistent/{bundles[0].rpartition('/')[0]}/t1"
        assert httpx.get(lookup_url).status_code == 503
        wait_for(lambda: all(fleet.owner_of(b) not in (victim, None) for b in bundles), "the leader gave all away")
        for bundle in bundles:
            found = read_record(client, pulsar_root, bundle)
            assert found is not None
            assert (found[0].force, found[0].source) == (True, victim)


def test_broker_can_be_killed_and_restarted_between_two_sessions(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, new_session_delay_s=LONG_S) as fleet:
        path = f"{pulsar_root}/loadbalance/brokers/{B1}"
        before = client.exists(path).czxid
        fleet.expire_session(B1)
        fleet.restart_broker(B1)
        stat = client.exists(path)
        assert stat.czxid > before
        assert stat.ephemeralOwner == fleet.state()["brokers"][B1]["session_id"]


def test_records_outlive_sessions_and_brokers_reopen_their_bundles(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, brokers=1, bundles=8) as fleet:
        before = {bundle: read_record(client, pulsar_root, bundle) for bundle in fleet.owners()}
        served = topics(fleet, B1)
        expire_all(fleet, client)
        assert {bundle: read_record(client, pulsar_root, bundle) for bundle in before} == before
        assert topics(fleet, B1).keys() == served.keys()


def test_broker_with_a_new_session_takes_what_was_assigned_meanwhile(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(
        zookeeper, pulsar_root, new_session_delay_s=scaled(3.0), monitor_interval_s=LONG_S, in_flight_limit_s=LONG_S
    ) as fleet:
        expire_all(fleet, client)
        # No leader has a stable session now: only the broker itself can complete the hand-over.
        away = follower(fleet)
        bundle = next(bundle for bundle, owner in fleet.owners().items() if owner != away)
        fleet.expire_session(away)
        before, _ = write_release(client, pulsar_root, bundle, away)

        def state() -> ServiceUnitState:
            found = read_record(client, pulsar_root, bundle)
            assert found is not None
            return found[0].state

        wait_for(lambda: state() is ServiceUnitState.ASSIGNING, "the source let go")
        wait_for(lambda: state() is ServiceUnitState.OWNED, "the destination took it when it came back")
        found = read_record(client, pulsar_root, bundle)
        assert found is not None
        assert (found[0].destination, found[0].force) == (away, False)
        assert found[0].version_id == before.version_id + 3


def test_leader_overrides_nothing_until_its_session_is_stable(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    stable_s = scaled(8.0)
    with running_fleet(zookeeper, pulsar_root, stable_session_s=stable_s) as fleet:
        began_ms = time.time() * 1000
        expire_all(fleet, client)
        victim = follower(fleet)
        orphans = owned_bundles(fleet, victim)
        fleet.kill_broker(victim)
        killed_ms = time.time() * 1000
        wait_for(lambda: all(fleet.owner_of(b) not in (victim, None) for b in orphans), "the orphans have new owners")
        for bundle in orphans:
            found = read_record(client, pulsar_root, bundle)
            assert found is not None
            assert found[0].force
            assert found[0].timestamp_ms >= began_ms + stable_s * 1000
        assert killed_ms < began_ms + stable_s * 1000, "the machine was too slow for this test to show anything"


def test_fenced_broker_keeps_its_bundles_and_accepts_no_more(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(
        zookeeper, pulsar_root, report_decider_timeout_s=3.0, report_broker_timeout_s=4.0, in_flight_limit_s=2.0
    ) as fleet:
        silent = follower(fleet)
        giver = next(b for b in fleet.broker_ids if b != silent)
        mine, other = first_bundle(fleet, silent), first_bundle(fleet, giver)
        fleet.freeze_reports(silent)
        time.sleep(4.0 + scaled(0.5))
        write_release(client, pulsar_root, other, silent)
        before, _ = write_release(client, pulsar_root, mine, giver)

        def is_settled(bundle: str) -> bool:
            found = read_record(client, pulsar_root, bundle)
            return found is not None and found[0].state is ServiceUnitState.OWNED

        wait_for(lambda: is_settled(mine) and is_settled(other), "both settled")
        given, kept = read_record(client, pulsar_root, mine), read_record(client, pulsar_root, other)
        assert given is not None
        assert kept is not None
        assert (given[0].destination, given[0].force, given[0].version_id) == (giver, False, before.version_id + 3)
        assert kept[0].destination != silent
        assert kept[0].force, "the leader had to override it"
