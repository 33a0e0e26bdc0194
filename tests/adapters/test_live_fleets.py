"""Running fleets of both kinds, read over a real ZooKeeper session and real HTTP."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.brokers.broker_http import PooledBrokerHttp
from evenkeel.adapters.cluster.reader import read_cluster
from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.adapters.lake.snapshots import SnapshotContent
from evenkeel.adapters.lake.store import from_arrow
from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument, Topic
from support.fleets import owned_bundles, running_fleet, write_release
from support.waiting import scaled

HTTP_TIMEOUT_S = scaled(5.0)
PATIENT_TIMEOUT_S = scaled(30.0)
MOST_REQUESTS_OF_A_BROKER = 5
KINDS = ("extensible", "modular")


def connection_to(fleet: Fleet, zookeeper: EmbeddedZooKeeper, timeout_s: float) -> ClusterConnection:
    return ClusterConnection(
        fleet.settings.cluster,
        zookeeper.connect_string,
        pulsar_root=fleet.settings.root,
        evenkeel_root=f"{fleet.settings.root}/evenkeel",
        timeout_s=timeout_s,
    )


def take(
    fleet: Fleet, zookeeper: EmbeddedZooKeeper, settings: Settings | None = None, timeout_s: float = HTTP_TIMEOUT_S
) -> SnapshotContent:
    with open_cluster(connection_to(fleet, zookeeper, timeout_s)) as source:
        return read_cluster(source, fleet.settings.cluster, settings or Settings(), datetime.now(UTC))


def bundles_of(content: SnapshotContent) -> list[Bundle]:
    """The bundles that may be planned, without those of pulsar/system."""
    rows = from_arrow(Bundle, content.tables["bundles"], "bundles")
    return [row for row in rows if not is_system_namespace(row.namespace)]


@pytest.mark.parametrize("kind", KINDS)
def test_snapshot_of_a_running_fleet_agrees_with_the_brokers(
    kind: str, zookeeper: EmbeddedZooKeeper, pulsar_root: str
) -> None:
    with running_fleet(zookeeper, pulsar_root, load_manager=kind, brokers=3, bundles=24, idle_bundles=2) as fleet:
        content = take(fleet, zookeeper)
        owners = fleet.owners()
    rows = bundles_of(content)
    assert str(content.load_manager) == kind
    assert {row.bundle: row.owner for row in rows if row.owner} == owners
    assert sum(row.owner is None for row in rows) == 2
    loaded = [row for row in rows if row.owner]
    assert all(row.msg_rate_in_per_s > 0 and row.topics > 0 and row.reported_at for row in loaded)
    topics = from_arrow(Topic, content.tables["topics"], "topics")
    assert len(topics) == sum(row.topics for row in rows)
    assert sum(t.producers for t in topics) == sum(row.producers for row in rows)
    assert sum(t.consumers for t in topics) == sum(row.consumers for row in rows)
    assert content.zxid_first is not None
    assert content.zxid_last is not None
    assert 0 < content.zxid_first <= content.zxid_last


@pytest.mark.parametrize("kind", KINDS)
def test_brokers_of_a_running_fleet_are_active_with_their_incarnation(
    kind: str, zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, load_manager=kind, brokers=3, bundles=24) as fleet:
        content = take(fleet, zookeeper)
        czxids = {b: client.exists(f"{pulsar_root}/loadbalance/brokers/{b}").czxid for b in fleet.broker_ids}
    brokers = from_arrow(Broker, content.tables["brokers"], "brokers")
    assert {b.broker_id: b.incarnation for b in brokers} == czxids
    assert {b.state for b in brokers} == {"Active"}
    assert content.brokers_without_report == ()
    policies = from_arrow(PolicyDocument, content.tables["policies"], "policies")
    for row in policies:
        assert row.path is not None
        assert row.path.startswith(pulsar_root)


def test_frozen_broker_is_listed_without_report(zookeeper: EmbeddedZooKeeper, pulsar_root: str) -> None:
    with running_fleet(zookeeper, pulsar_root, brokers=3, bundles=24) as fleet:
        frozen = fleet.broker_ids[1]
        fleet.freeze_reports(frozen)
        content = take(fleet, zookeeper)
    assert content.brokers_without_report == (frozen,)
    assert len(bundles_of(content)) == 24
    assert all(row.msg_rate_in_per_s == 0 for row in bundles_of(content) if row.owner == frozen)


def test_broker_with_an_old_modular_report_is_listed_as_stale(zookeeper: EmbeddedZooKeeper, pulsar_root: str) -> None:
    with running_fleet(zookeeper, pulsar_root, load_manager="modular", brokers=3, bundles=24) as fleet:
        frozen = fleet.broker_ids[1]
        fleet.freeze_reports(frozen)
        time.sleep(1.5)
        content = take(fleet, zookeeper, Settings(broker_load_data_ttl_in_seconds=1.0))
    assert frozen in content.brokers_with_stale_report
    states = {b.broker_id: b.state for b in from_arrow(Broker, content.tables["brokers"], "brokers")}
    assert states[frozen] == "Inactive"


def test_broker_under_draining_is_stopping(zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient) -> None:
    with running_fleet(zookeeper, pulsar_root, brokers=3, bundles=24) as fleet:
        leaving = fleet.broker_ids[0]
        client.create(f"{pulsar_root}/evenkeel/{fleet.settings.cluster}/draining/{leaving}", makepath=True)
        content = take(fleet, zookeeper)
    states = {b.broker_id: b.state for b in from_arrow(Broker, content.tables["brokers"], "brokers")}
    assert states[leaving] == "Stopping"
    assert set(states.values()) == {"Stopping", "Active"}


def test_snapshots_in_the_midst_of_transfers_are_no_false_alarm(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, brokers=3, bundles=24, hand_over_delay_s=0.2) as fleet:
        first, second, _ = fleet.broker_ids
        # Each bundle once: one that was released before may still be in flight.
        for bundle in owned_bundles(fleet, first)[:4]:
            write_release(client, pulsar_root, bundle, second)
            rows = bundles_of(take(fleet, zookeeper))
            assert len(rows) == 24


@pytest.mark.parametrize("kind", KINDS)
def test_five_thousand_bundles_take_a_few_requests_of_each_broker(
    kind: str, zookeeper: EmbeddedZooKeeper, pulsar_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    fetch = PooledBrokerHttp.fetch

    def count(http: PooledBrokerHttp, urls: Sequence[str], *more: Any, **options: Any) -> Any:
        asked.extend(urls)
        return fetch(http, urls, *more, **options)

    monkeypatch.setattr(PooledBrokerHttp, "fetch", count)
    with running_fleet(
        zookeeper, pulsar_root, load_manager=kind, brokers=10, bundles=5_000, report_interval_s=60.0
    ) as fleet:
        content = take(fleet, zookeeper, timeout_s=PATIENT_TIMEOUT_S)
    assert len(bundles_of(content)) == 5_000
    assert content.brokers_without_report == ()
    # Neither bundles nor topics are asked for one by one.
    assert 0 < len(asked) <= MOST_REQUESTS_OF_A_BROKER * 10, asked
