"""Brokers with the modular load manager: ephemeral ownership, load reports, and destinations as hints."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from kazoo.client import KazooClient

from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from support.fleets import first_bundle, owned_bundles, read_json, running_fleet
from support.waiting import scaled, wait_for

B1, B2, B3 = (f"b0{number}.fleet:8080" for number in (1, 2, 3))
NEVER_S = 3600.0


@pytest.fixture
def fleet(zookeeper: EmbeddedZooKeeper, pulsar_root: str) -> Iterator[Fleet]:
    with running_fleet(zookeeper, pulsar_root, load_manager="modular") as fleet:
        yield fleet


def read_report(client: KazooClient, fleet: Fleet, broker_id: str) -> dict[str, Any]:
    report: dict[str, Any] = read_json(client, f"{fleet.settings.root}/loadbalance/brokers/{broker_id}")
    return report


def some_topic(fleet: Fleet, bundle: str) -> str:
    answer = httpx.get(f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/topicHashPositions", follow_redirects=True)
    return str(next(iter(answer.json()["topicHashPositions"]))).removeprefix("persistent://")


def unload(fleet: Fleet, bundle: str, **parameters: str) -> httpx.Response:
    url = f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/unload"
    return httpx.put(url, params=parameters, follow_redirects=True, timeout=scaled(20))


def test_destination_is_honoured_at_the_next_lookup_and_not_before(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, load_manager="modular", clients_look_up_after_s=NEVER_S) as fleet:
        bundle = first_bundle(fleet, B2)
        assert unload(fleet, bundle, destinationBroker=B3).status_code == 204
        assert client.exists(f"{pulsar_root}/namespace/{bundle}") is None
        found = httpx.get(
            f"{fleet.web_url(B1)}/lookup/v2/topic/persistent/{some_topic(fleet, bundle)}",
            follow_redirects=True,
            timeout=scaled(20),
        )
        assert found.json()["httpUrl"] == fleet.web_url(B3)
        assert fleet.owner_of(bundle) == B3


def test_clients_look_up_an_unloaded_bundle(fleet: Fleet) -> None:
    bundle = first_bundle(fleet, B2)
    assert unload(fleet, bundle, destinationBroker=B1).status_code == 204
    wait_for(lambda: fleet.owner_of(bundle) == B1, f"{bundle} is owned by {B1}")


def test_dead_destination_is_refused(fleet: Fleet) -> None:
    bundle = first_bundle(fleet, B1)
    assert unload(fleet, bundle, destinationBroker="b99.fleet:8080").status_code == 409
    assert fleet.owner_of(bundle) == B1


def test_unload_with_destination_goes_through_the_leader(fleet: Fleet) -> None:
    leader = fleet.leader()
    assert leader is not None
    asked = next(broker for broker in fleet.broker_ids if broker != leader)
    bundle = first_bundle(fleet, asked)
    path = f"/admin/v2/namespaces/{bundle}/unload?destinationBroker={B3}"
    to_leader = httpx.put(fleet.web_url(asked) + path)
    assert to_leader.status_code == 307
    assert to_leader.headers["Location"].startswith(fleet.web_url(leader))
    to_owner = httpx.put(to_leader.headers["Location"])
    assert to_owner.status_code == 307
    assert (
        to_owner.headers["Location"] == f"{fleet.web_url(asked)}/admin/v2/namespaces/{bundle}/unload?authoritative=true"
    )


def test_owner_recreates_its_deleted_node(fleet: Fleet, client: KazooClient) -> None:
    bundle = first_bundle(fleet, B1)
    path = f"{fleet.settings.root}/namespace/{bundle}"
    before = client.exists(path)
    client.delete(path)
    wait_for(lambda: (now := client.exists(path)) is not None and now.czxid > before.czxid, "the node is back")
    assert client.exists(path).ephemeralOwner == before.ephemeralOwner


def test_killed_brokers_bundles_move_to_other_brokers(fleet: Fleet) -> None:
    orphans = owned_bundles(fleet, B2)
    fleet.kill_broker(B2)
    wait_for(lambda: all(fleet.owner_of(b) not in (B2, None) for b in orphans), "every orphan has a new owner")


def test_split_cuts_the_boundaries_and_gives_both_children_to_the_owner(fleet: Fleet, client: KazooClient) -> None:
    bundle = first_bundle(fleet, B1)
    namespace = bundle.rpartition("/")[0]
    before = read_json(client, f"{fleet.settings.root}/admin/local-policies/{namespace}")["bundles"]["numBundles"]
    answer = httpx.put(f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/split", timeout=scaled(20))
    assert answer.status_code == 204
    assert client.exists(f"{fleet.settings.root}/namespace/{bundle}") is None
    for kind in ("local-policies", "policies"):
        document = read_json(client, f"{fleet.settings.root}/admin/{kind}/{namespace}")
        assert document["bundles"]["numBundles"] == before + 1
    owned = owned_bundles(fleet, B1)
    assert bundle not in owned
    lower = bundle.rpartition("/")[2].partition("_")[0]
    assert any(name.startswith(f"{namespace}/{lower}_") for name in owned)


def test_split_with_unload_unloads_the_children(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, load_manager="modular", clients_look_up_after_s=NEVER_S) as fleet:
        bundle = first_bundle(fleet, B1)
        namespace, _, text = bundle.rpartition("/")
        url = f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/split"
        assert httpx.put(url, params={"unload": "true"}, timeout=scaled(20)).status_code == 204
        lower, upper = text.split("_")
        left = client.get_children(f"{pulsar_root}/namespace/{namespace}")
        assert not [part for part in left if part.startswith(lower) or part.endswith(upper)]


def test_report_agrees_with_what_the_broker_owns(fleet: Fleet, client: KazooClient) -> None:
    for broker in fleet.broker_ids:
        report = read_report(client, fleet, broker)
        assert sorted(report["lastStats"]) == sorted(report["bundles"]) == owned_bundles(fleet, broker)
        assert report["msgRateIn"] == pytest.approx(sum(s["msgRateIn"] for s in report["lastStats"].values()))


def test_report_is_written_when_ownership_changed_enough(fleet: Fleet, client: KazooClient) -> None:
    bundles = owned_bundles(fleet, B1)
    moved = bundles[: len(bundles) // 2]
    for bundle in moved:
        assert unload(fleet, bundle, destinationBroker=B3).status_code == 204
    wait_for(lambda: set(moved) <= set(read_report(client, fleet, B3)["bundles"]), "the new owner reports the bundles")
    wait_for(lambda: not set(moved) & set(read_report(client, fleet, B1)["bundles"]), "the old owner dropped them")


def test_unchanged_report_is_not_written_again(fleet: Fleet, client: KazooClient) -> None:
    path = f"{fleet.settings.root}/loadbalance/brokers/{B1}"
    before = client.exists(path).version
    bundle = first_bundle(fleet, B2)
    client.delete(f"{fleet.settings.root}/namespace/{bundle}")
    wait_for(lambda: fleet.owner_of(bundle) == B2, "the fleet is alive")
    assert client.exists(path).version == before


def test_old_report_is_written_again_unless_it_is_frozen(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, load_manager="modular", report_max_interval_s=0.1) as fleet:
        fleet.freeze_reports(B2)
        frozen = read_report(client, fleet, B2)["lastUpdate"]
        moving = read_report(client, fleet, B1)["lastUpdate"]
        wait_for(lambda: read_report(client, fleet, B1)["lastUpdate"] > moving + 600, "the report goes on")
        # One round may have been under way when the broker froze.
        assert read_report(client, fleet, B2)["lastUpdate"] <= frozen + 500


def test_load_report_request_gives_the_report(fleet: Fleet) -> None:
    report = httpx.get(f"{fleet.web_url(B1)}/admin/v2/broker-stats/load-report").json()
    assert report["bundles"] == owned_bundles(fleet, B1)
