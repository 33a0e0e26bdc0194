"""Brokers with the extensible load manager follow records, whoever wrote them, and repair broken ones."""

from __future__ import annotations

import time
from collections.abc import Iterator

import httpx
import pytest
from kazoo.client import KazooClient

from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.bundles import BundleName, find_ring_fault, ranges_between
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from support.fleets import first_bundle, owned_bundles, read_json, read_record, running_fleet, write_release
from support.waiting import scaled, wait_for

B1, B2, B3 = (f"b0{number}.fleet:8080" for number in (1, 2, 3))


@pytest.fixture
def fleet(zookeeper: EmbeddedZooKeeper, pulsar_root: str) -> Iterator[Fleet]:
    with running_fleet(zookeeper, pulsar_root) as fleet:
        yield fleet


def read_ranges(client: KazooClient, fleet: Fleet, namespace: str, kind: str = "local-policies") -> list[str]:
    document = read_json(client, f"{fleet.settings.root}/admin/{kind}/{namespace}")
    points = [int(text, 16) for text in document["bundles"]["boundaries"]]
    assert document["bundles"]["numBundles"] == len(points) - 1
    assert find_ring_fault(ranges_between(points)) is None
    return [str(part) for part in ranges_between(points)]


def is_owned(client: KazooClient, fleet: Fleet, bundle: str, owner: str, version_id: int) -> bool:
    found = read_record(client, fleet.settings.root, bundle)
    if found is None:
        return False
    record = found[0]
    return (record.state, record.destination, record.version_id) == (ServiceUnitState.OWNED, owner, version_id)


def test_external_release_with_destination_ends_owned_by_it_three_versions_later(
    fleet: Fleet, client: KazooClient
) -> None:
    bundle = first_bundle(fleet, B1)
    before, _ = write_release(client, fleet.settings.root, bundle, B3)
    wait_for(lambda: is_owned(client, fleet, bundle, B3, before.version_id + 3), f"{bundle} is owned by {B3}")
    found = read_record(client, fleet.settings.root, bundle)
    assert found is not None
    assert found[0].source == B1
    assert not found[0].force
    wait_for(lambda: fleet.owner_of(bundle) == B3, "the fleet says so")


def test_traffic_moves_with_the_bundle(fleet: Fleet, client: KazooClient) -> None:
    bundle = first_bundle(fleet, B1)
    namespace, _, bundle_range = bundle.rpartition("/")
    before = httpx.get(f"{fleet.web_url(B1)}/admin/v2/broker-stats/topics").json()
    write_release(client, fleet.settings.root, bundle, B2)
    wait_for(lambda: fleet.owner_of(bundle) == B2, f"{bundle} is owned by {B2}")
    left = httpx.get(f"{fleet.web_url(B1)}/admin/v2/broker-stats/topics").json()
    gained = httpx.get(f"{fleet.web_url(B2)}/admin/v2/broker-stats/topics").json()
    assert bundle_range not in left.get(namespace, {})
    assert gained[namespace][bundle_range]["persistent"].keys() == before[namespace][bundle_range]["persistent"].keys()


def test_unloaded_bundle_becomes_free_and_comes_back_by_lookup(fleet: Fleet, client: KazooClient) -> None:
    bundle = first_bundle(fleet, B1)
    before, _ = write_release(client, fleet.settings.root, bundle, None)
    # Releasing, Free, Assigning, Owned: four changes, and an assignment out of Free names no source.
    wanted = before.version_id + 4
    wait_for(lambda: any(is_owned(client, fleet, bundle, b, wanted) for b in fleet.broker_ids), "it is owned again")
    found = read_record(client, fleet.settings.root, bundle)
    assert found is not None
    assert found[0].source is None


def test_bundle_without_clients_stays_free_until_a_lookup(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, clients_look_up_after_s=3600.0) as fleet:
        bundle = first_bundle(fleet, B1)
        write_release(client, pulsar_root, bundle, None)
        wait_for(lambda: fleet.owner_of(bundle) is None, f"{bundle} is free")
        positions = httpx.get(f"{fleet.web_url(B2)}/admin/v2/namespaces/{bundle}/topicHashPositions").json()
        topic = next(iter(positions["topicHashPositions"])).removeprefix("persistent://")
        found = httpx.get(f"{fleet.web_url(B2)}/lookup/v2/topic/persistent/{topic}", timeout=scaled(20))
        assert found.status_code == 200
        owner = fleet.owner_of(bundle)
        assert owner is not None
        assert found.json()["httpUrl"] == fleet.web_url(owner)


def test_external_split_leaves_two_children_and_removes_the_parent(fleet: Fleet, client: KazooClient) -> None:
    parent = BundleName.parse(first_bundle(fleet, B1))
    root, path = fleet.settings.root, f"{fleet.settings.root}/service_unit_state/{parent}"
    found = read_record(client, root, str(parent))
    assert found is not None
    middle = parent.range.lower + 4096
    children = [str(part) for part in parent.range.split_at(middle)]
    record = ServiceUnitRecord(
        ServiceUnitState.SPLITTING,
        int(time.time() * 1000),
        found[0].version_id + 1,
        source=B1,
        children=dict.fromkeys(children),
    )
    client.set(path, record.encode(), version=found[1])
    wait_for(lambda: client.exists(path) is None, "the parent is removed")
    for child in children:
        assert is_owned(client, fleet, f"{parent.namespace}/{child}", B1, 1)
    for kind in ("local-policies", "policies"):
        ranges = read_ranges(client, fleet, parent.namespace, kind)
        assert set(children) <= set(ranges)
        assert str(parent.range) not in ranges


def test_admin_split_halves_a_bundle_and_keeps_its_topics(fleet: Fleet, client: KazooClient) -> None:
    parent = first_bundle(fleet, B1)
    namespace = parent.rpartition("/")[0]
    topics = httpx.get(f"{fleet.web_url(B1)}/admin/v2/namespaces/{parent}/topicHashPositions").json()
    count = len(read_ranges(client, fleet, namespace))
    answer = httpx.put(
        f"{fleet.web_url(B2)}/admin/v2/namespaces/{parent}/split", follow_redirects=True, timeout=scaled(20)
    )
    assert answer.status_code == 204
    assert len(read_ranges(client, fleet, namespace)) == count + 1
    served = httpx.get(f"{fleet.web_url(B1)}/admin/v2/broker-stats/topics").json()[namespace]
    names = {topic for domains in served.values() for topic in domains["persistent"]}
    assert topics["topicHashPositions"].keys() <= names


def test_admin_unload_with_destination_is_redirected_to_the_owner_and_transfers(
    fleet: Fleet, client: KazooClient
) -> None:
    bundle = first_bundle(fleet, B1)
    path = f"/admin/v2/namespaces/{bundle}/unload?destinationBroker={B3}"
    answer = httpx.put(fleet.web_url(B2) + path)
    assert answer.status_code == 307
    assert answer.headers["Location"].startswith(fleet.web_url(B1) + f"/admin/v2/namespaces/{bundle}/unload")
    assert httpx.put(answer.headers["Location"], timeout=scaled(20)).status_code == 204
    assert fleet.owner_of(bundle) == B3


def test_dead_destination_is_refused(fleet: Fleet) -> None:
    bundle = first_bundle(fleet, B1)
    fleet.kill_broker(B3)
    url = f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/unload"
    wait_for(
        lambda: httpx.put(url, params={"destinationBroker": B3}, timeout=scaled(20)).status_code == 409,
        "409 for a dead broker",
    )
    assert fleet.owner_of(bundle) == B1


def test_leader_reassigns_a_killed_brokers_bundles_by_force(fleet: Fleet, client: KazooClient) -> None:
    victim = next(broker for broker in fleet.broker_ids if broker != fleet.leader())
    orphans = owned_bundles(fleet, victim)
    fleet.kill_broker(victim)
    wait_for(lambda: all(fleet.owner_of(b) not in (victim, None) for b in orphans), "every orphan has a new owner")
    for bundle in orphans:
        found = read_record(client, fleet.settings.root, bundle)
        assert found is not None
        assert found[0].force
        assert found[0].source == victim


def test_killed_leader_is_replaced_and_its_bundles_are_taken_over(fleet: Fleet) -> None:
    leader = fleet.leader()
    assert leader is not None
    orphans = owned_bundles(fleet, leader)
    fleet.kill_broker(leader)
    wait_for(lambda: all(fleet.owner_of(b) not in (leader, None) for b in orphans), "every orphan has a new owner")
    assert fleet.leader() not in (leader, None)


def test_stuck_hand_over_is_overridden_by_the_leader(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, hand_over_delay_s=3600.0, in_flight_limit_s=1.0) as fleet:
        bundle = first_bundle(fleet, B1)
        before, _ = write_release(client, pulsar_root, bundle, B2)
        wait_for(lambda: (found := read_record(client, pulsar_root, bundle)) is not None and found[0].force, "override")
        found = read_record(client, pulsar_root, bundle)
        assert found is not None
        assert found[0].state is ServiceUnitState.OWNED
        assert found[0].version_id == before.version_id + 2


def test_expired_session_stops_the_broker_and_a_restart_is_a_new_incarnation(fleet: Fleet, client: KazooClient) -> None:
    path = f"{fleet.settings.root}/loadbalance/brokers/{B2}"
    before = client.exists(path).czxid
    fleet.set_session_policy(B2, "shutdown")
    fleet.expire_session(B2)
    wait_for(lambda: client.exists(path) is None, "the registration is gone")
    fleet.restart_broker(B2)
    assert client.exists(path).czxid > before


def test_unreadable_record_is_left_alone(zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient) -> None:
    with running_fleet(zookeeper, pulsar_root, admin_timeout_s=1.0) as fleet:
        bundle = first_bundle(fleet, B1)
        path = f"{pulsar_root}/service_unit_state/{bundle}"
        client.set(path, b'{"state":"Wandering","dstBroker":"x","timestamp":1,"versionId":2}')
        answer = httpx.put(f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/unload", timeout=scaled(20))
        assert answer.status_code == 500
        assert b"Wandering" in client.get(path)[0]


def test_frozen_broker_stays_registered_but_does_not_respond(fleet: Fleet, client: KazooClient) -> None:
    fleet.freeze_reports(B2)
    with pytest.raises(httpx.TimeoutException):
        httpx.get(f"{fleet.web_url(B2)}/admin/v2/broker-stats/topics", timeout=0.5)
    assert client.exists(f"{fleet.settings.root}/loadbalance/brokers/{B2}")
    fleet.thaw_reports(B2)
    assert httpx.get(f"{fleet.web_url(B2)}/admin/v2/broker-stats/topics").status_code == 200


def test_killed_broker_drops_connections(fleet: Fleet) -> None:
    fleet.kill_broker(B2)
    with pytest.raises(httpx.RemoteProtocolError):
        httpx.get(f"{fleet.web_url(B2)}/admin/v2/broker-stats/topics")
