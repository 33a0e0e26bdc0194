"""The rest of Pulsar's HTTP API, which both load managers share."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from evenkeel.fleet.fleet import Fleet
from evenkeel.fleet.settings import EXTENSIBLE_CLASS, METADATA_STORE_VIEW_CLASS, MODULAR_CLASS
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.pulsar_rules.ring import hash_topic
from support.fleets import first_bundle, owned_bundles, running_fleet
from support.waiting import scaled

B1, B2, B3 = (f"b0{number}.fleet:8080" for number in (1, 2, 3))


@pytest.fixture(params=["extensible", "modular"])
def fleet(request: pytest.FixtureRequest, zookeeper: EmbeddedZooKeeper, pulsar_root: str) -> Iterator[Fleet]:
    with running_fleet(zookeeper, pulsar_root, load_manager=request.param) as fleet:
        yield fleet


def test_read_requests(fleet: Fleet) -> None:
    is_extensible = fleet.settings.load_manager == "extensible"
    with httpx.Client(base_url=f"{fleet.web_url(B1)}/admin/v2/", timeout=scaled(20)) as http:
        runtime = http.get("brokers/configuration/runtime").json()
        assert runtime["loadManagerClassName"] == (EXTENSIBLE_CLASS if is_extensible else MODULAR_CLASS)
        view = runtime["loadManagerServiceUnitStateTableViewClassName"]
        assert (view == METADATA_STORE_VIEW_CLASS) is is_extensible
        assert all(type(value) is str for value in runtime.values())
        assert http.get("brokers").json() == http.get("brokers/fleet").json() == [B1, B2, B3]
        leader = http.get("brokers/leaderBroker").json()
        assert leader == {"brokerId": fleet.leader(), "serviceUrl": fleet.web_url(str(fleet.leader()))}
        assert http.get("broker-stats/load-report").status_code == (500 if is_extensible else 200)
        namespace = first_bundle(fleet, B1).rpartition("/")[0]
        bundles = http.get(f"namespaces/{namespace}/bundles").json()
        assert bundles["numBundles"] == len(bundles["boundaries"]) - 1 > 0
        assert http.get("brokers/configuration/values").json() == {"loadBalancerSheddingEnabled": "true"}


def test_owned_namespaces_come_from_the_broker_itself(fleet: Fleet) -> None:
    path = f"/admin/v2/brokers/fleet/{B2}/ownedNamespaces"
    redirect = httpx.get(fleet.web_url(B1) + path)
    assert redirect.status_code == 307
    assert redirect.headers["Location"] == fleet.web_url(B2) + path
    owned = httpx.get(redirect.headers["Location"]).json()
    tenants = ("pulsar", "sla-monitor") if fleet.settings.load_manager == "extensible" else ("pulsar",)
    pinned = [f"{tenant}/{B2}/0x00000000_0xffffffff" for tenant in tenants]
    assert sorted(owned.keys() - set(pinned)) == owned_bundles(fleet, B2)
    assert owned[pinned[0]] == {"broker_assignment": "shared", "is_controlled": False, "is_active": True}


def test_topic_positions_are_their_hashes(fleet: Fleet) -> None:
    bundle = first_bundle(fleet, B1)
    answer = httpx.get(f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/topicHashPositions").json()
    assert len(answer["topicHashPositions"]) >= 2
    assert all(position == hash_topic(topic) for topic, position in answer["topicHashPositions"].items())


def test_metrics_are_percentages_of_the_topics_load(fleet: Fleet) -> None:
    def cpu_of(broker: str) -> float:
        entries = httpx.get(f"{fleet.web_url(broker)}/admin/v2/broker-stats/metrics").json()
        return float(next(e["metrics"]["brk_lb_cpu_usage"] for e in entries if "brk_lb_cpu_usage" in e["metrics"]))

    assert 100 > cpu_of(B1) > cpu_of(B3) > 0


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/admin/v2/namespaces/no/such/bundles", 404),
        ("PUT", "/admin/v2/namespaces/acme/orders/0x00000000_0x00000001/unload", 412),
        ("GET", "/admin/v2/nothing/here", 404),
        ("GET", "/lookup/v2/topic/persistent/no/such/topic", 404),
    ],
)
def test_wrong_requests_get_a_status_and_a_reason(fleet: Fleet, method: str, path: str, status: int) -> None:
    answer = httpx.request(method, fleet.web_url(B1) + path)
    assert answer.status_code == status
    assert answer.json()["reason"]


def test_split_at_given_positions(fleet: Fleet) -> None:
    bundle = first_bundle(fleet, B1)
    namespace, _, text = bundle.rpartition("/")
    cut = int(text[:10], 16) + 12345
    url = f"{fleet.web_url(B1)}/admin/v2/namespaces/{bundle}/split"
    parameters = {"splitAlgorithmName": "specified_positions_divide"}
    assert httpx.request("PUT", url, params=parameters, json=[cut], timeout=scaled(20)).status_code == 204
    boundaries = httpx.get(f"{fleet.web_url(B1)}/admin/v2/namespaces/{namespace}/bundles").json()["boundaries"]
    assert f"0x{cut:08x}" in boundaries


def test_connections_are_kept_alive(fleet: Fleet) -> None:
    with httpx.Client() as http:
        ports = set()
        for _ in range(3):
            answer = http.get(f"{fleet.web_url(B1)}/admin/v2/brokers")
            ports.add(answer.extensions["network_stream"].get_extra_info("client_addr"))
    assert len(ports) == 1
