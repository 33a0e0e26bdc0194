"""Modular brokers that lose a session: PIP-57 in both stores, and what happens to the leader."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from kazoo.client import KazooClient

from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import UnavailableError
from support.fleets import first_bundle, owned_bundles, read_json, running_fleet
from support.proxies import limited_proxy
from support.waiting import scaled, wait_for

B1, B2, B3 = (f"b0{number}.fleet:8080" for number in (1, 2, 3))
NEVER_S = 3600.0
MODULAR: dict[str, Any] = {"load_manager": "modular", "clients_look_up_after_s": NEVER_S}


def registration(fleet: Fleet, broker_id: str) -> str:
    return f"{fleet.settings.root}/loadbalance/brokers/{broker_id}"


def session_of(fleet: Fleet, broker_id: str) -> int:
    return int(fleet.state()["brokers"][broker_id]["session_id"])


def owners_by_session(client: KazooClient, fleet: Fleet, bundles: list[str]) -> set[int]:
    stats = [client.exists(f"{fleet.settings.root}/namespace/{bundle}") for bundle in bundles]
    return {stat.ephemeralOwner if stat else 0 for stat in stats}


def lookup(fleet: Fleet, asked: str, bundle: str) -> httpx.Response:
    positions = httpx.get(f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/topicHashPositions", follow_redirects=True)
    topic = next(iter(positions.json()["topicHashPositions"])).removeprefix("persistent://")
    return httpx.get(
        f"{fleet.web_url(asked)}/lookup/v2/topic/persistent/{topic}", follow_redirects=True, timeout=scaled(20)
    )


def test_broker_with_a_new_session_owns_its_bundles_again_and_reports_its_load(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, **MODULAR) as fleet:
        bundles, old = owned_bundles(fleet, B2), session_of(fleet, B2)
        before, stat = client.get(registration(fleet, B2))
        fleet.expire_session(B2)
        wait_for(lambda: session_of(fleet, B2) not in (0, old), "a new session")
        new = session_of(fleet, B2)
        wait_for(lambda: owners_by_session(client, fleet, bundles) == {new}, "every bundle is a node of it")
        wait_for(lambda: owned_bundles(fleet, B2) == bundles, "nothing was lost")

        def has_reported() -> bool:
            if client.exists(registration(fleet, B2)) is None:
                return False
            return bool(read_json(client, registration(fleet, B2))["bundles"] == bundles)

        wait_for(has_reported, "the load is reported anew")
        after, stat_after = client.get(registration(fleet, B2))
        assert stat_after.czxid > stat.czxid
        assert stat_after.ephemeralOwner == new
        assert json.loads(after)["lastUpdate"] > json.loads(before)["lastUpdate"]
        assert json.loads(after)["startTimestamp"] == json.loads(before)["startTimestamp"]


def test_bundle_that_another_broker_took_meanwhile_is_unloaded(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, new_session_delay_s=scaled(2.0), **MODULAR) as fleet:
        bundles = owned_bundles(fleet, B2)
        taken = bundles[0]
        fleet.expire_session(B2)
        wait_for(lambda: fleet.owner_of(taken) is None, "the node went with the session")
        found = lookup(fleet, B1, taken)
        assert found.status_code == 200
        assert not fleet.state()["brokers"][B2]["has_session"]
        owner = fleet.owner_of(taken)
        assert owner in (B1, B3)
        wait_for(lambda: owned_bundles(fleet, B2) == bundles[1:], "the rest is owned again")
        assert fleet.owner_of(taken) == owner
        served = httpx.get(f"{fleet.web_url(B2)}/admin/v2/broker-stats/topics").json()
        namespace, _, text = taken.rpartition("/")
        assert text not in served.get(namespace, {})


def test_broker_between_two_sessions_serves_its_topics_and_refuses_lookups(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str
) -> None:
    with running_fleet(zookeeper, pulsar_root, new_session_delay_s=scaled(2.0), **MODULAR) as fleet:
        topics_url = f"{fleet.web_url(B2)}/admin/v2/broker-stats/topics"
        before, bundle = httpx.get(topics_url).json(), first_bundle(fleet, B2)
        fleet.expire_session(B2)
        assert lookup(fleet, B2, bundle).status_code == 503
        assert httpx.get(topics_url).json().keys() == before.keys()


def test_policy_of_one_broker_is_shutdown(zookeeper: EmbeddedZooKeeper, pulsar_root: str) -> None:
    with running_fleet(zookeeper, pulsar_root, load_manager="modular") as fleet:
        fleet.set_session_policy(B2, "shutdown")
        runtime = [httpx.get(f"{fleet.web_url(b)}/admin/v2/brokers/configuration/runtime").json() for b in (B1, B2)]
        assert [values["zookeeperSessionExpiredPolicy"] for values in runtime] == ["reconnect", "shutdown"]
        orphans = owned_bundles(fleet, B2)
        fleet.expire_session(B2)
        wait_for(lambda: not fleet.state()["brokers"][B2]["is_running"], "the broker shut down")
        wait_for(lambda: all(fleet.owner_of(b) in (B1, B3) for b in orphans), "the others took its bundles")
        assert not fleet.failed.is_set()


def test_broker_without_a_new_session_shuts_down_after_its_retries(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("evenkeel.fleet.sessions.CONNECT_TIMEOUT_S", 1.0)
    with limited_proxy(zookeeper.connect_string) as proxy:
        by_proxy = type("Server", (), {"connect_string": proxy.address})()
        with running_fleet(by_proxy, pulsar_root, brokers=1, bundles=4, session_retries=1, **MODULAR) as fleet:
            # One connection takes the session over; the other is the broker's own, which learns that it has expired.
            proxy.limit = proxy.accepted + 2
            fleet.expire_session(B1)
            wait_for(fleet.failed.is_set, "the last broker shut down")
            assert not fleet.state()["brokers"][B1]["is_running"]
            assert proxy.refused > 0
            proxy.limit = None


def test_old_node_of_a_leader_starts_no_second_term(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, **MODULAR) as fleet:
        path = f"{pulsar_root}/loadbalance/leader"
        data, _ = client.get(path)
        with client.transaction() as swap:
            swap.delete(path)
            swap.create(path, data, ephemeral=True)
        assert client.exists(path).ephemeralOwner == client.client_id[0]
        wait_for(lambda: fleet.state()["leader"] is None, "a node of another session makes no leader")
        client.delete(path)
        wait_for(lambda: fleet.state()["leader"] is not None, "an election")


def test_expired_leader_is_a_real_fail_over_and_its_hints_are_lost(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, skew=0.9, **MODULAR) as fleet:
        leader, path = fleet.leader(), f"{pulsar_root}/loadbalance/leader"
        assert leader is not None
        before = client.exists(path)
        # B1 is the most loaded, so only a hint would bring a bundle of B2 there.
        bundle = first_bundle(fleet, B2)
        url = f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/unload"
        answer = httpx.put(url, params={"destinationBroker": B1}, follow_redirects=True, timeout=scaled(20))
        assert answer.status_code == 204
        fleet.expire_session(leader)

        def is_led_anew() -> bool:
            stat = client.exists(path)
            return stat is not None and stat.czxid > before.czxid and fleet.state()["leader"] is not None

        wait_for(is_led_anew, "another term")
        assert client.exists(path).ephemeralOwner != before.ephemeralOwner
        wait_for(lambda: all(b["has_session"] for b in fleet.state()["brokers"].values()), "all have sessions")
        assert lookup(fleet, B3, bundle).status_code == 200
        assert fleet.owner_of(bundle) != B1


def test_two_brokers_under_one_id_are_refused(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient
) -> None:
    with running_fleet(zookeeper, pulsar_root, session_timeout_s=1.0, **MODULAR) as fleet:
        fleet.kill_broker(B2)
        wait_for(lambda: client.exists(registration(fleet, B2)) is None, "the registration is gone")
        client.create(registration(fleet, B2), b"{}", ephemeral=True)
        with pytest.raises(UnavailableError, match="belongs to another session: stop the other broker of that name"):
            fleet.restart_broker(B2)
        assert not fleet.state()["brokers"][B2]["is_running"]
        assert client.get(registration(fleet, B2))[0] == b"{}"


def test_lost_session_of_the_configuration_store_is_replaced_and_its_cache_dropped(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient, tmp_path: Path
) -> None:
    with EmbeddedZooKeeper(tmp_path / "configuration") as store:
        settings = {**MODULAR, "configuration_zookeeper": store.connect_string}
        with running_fleet(zookeeper, pulsar_root, **settings) as fleet:
            assert client.exists(f"{pulsar_root}/admin/policies") is None
            other = KazooClient(store.connect_string)
            other.start()
            bundle, sessions = first_bundle(fleet, B2), {b: session_of(fleet, b) for b in fleet.broker_ids}
            namespace, before = bundle.rpartition("/")[0], fleet.owners()
            unload_url = f"{fleet.web_url(B2)}/admin/v2/namespaces/{bundle}/unload"
            assert httpx.put(unload_url, timeout=scaled(20)).status_code == 204
            assert lookup(fleet, B1, bundle).status_code == 200
            for broker_id in fleet.broker_ids:
                fleet.expire_configuration_session(broker_id)
            policy = {
                "namespaces": [namespace],
                "primary": ["b03.fleet"],
                "secondary": [],
                "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
            }
            path = f"{pulsar_root}/admin/clusters/{fleet.settings.cluster}/namespaceIsolationPolicies"
            other.create(path, json.dumps({"reserved": policy}).encode())
            owner = fleet.owner_of(bundle)
            assert owner is not None
            assert httpx.put(unload_url.replace(B2, owner), timeout=scaled(20)).status_code == 204
            wait_for(lambda: lookup(fleet, B1, bundle).status_code == 200, "the brokers can read policies again")
            assert fleet.owner_of(bundle) == B3
            assert {b: session_of(fleet, b) for b in fleet.broker_ids} == sessions
            assert {**fleet.owners(), bundle: B2} == {**before, bundle: B2}
            split = first_bundle(fleet, B1)
            assert (
                httpx.put(f"{fleet.web_url(B1)}/admin/v2/namespaces/{split}/split", timeout=scaled(20)).status_code
                == 204
            )
            boundaries = read_json(other, f"{pulsar_root}/admin/policies/{split.rpartition('/')[0]}")["bundles"]
            assert (
                boundaries
                == read_json(client, f"{pulsar_root}/admin/local-policies/{split.rpartition('/')[0]}")["bundles"]
            )
            other.stop()
            other.close()
