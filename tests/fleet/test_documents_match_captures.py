"""The fleet's documents in ZooKeeper and over HTTP have the fields and types captured from real 4.2.4 brokers.

Two documents agree when they have the same keys and, key by key, the same JSON type, all the way down. Maps
whose keys are names (bundles, topics, policies) are compared member by member against every captured member.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from kazoo.client import KazooClient

from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from support.fleets import read_json, running_fleet
from support.shapes import Shape, load_capture, merge, shape_of
from support.waiting import scaled


def kind_of(path: str) -> str | None:
    """Return the kind of a node's document by its path; None if the fleet need not write one."""
    parts = path.strip("/").split("/")
    match parts:
        case ["admin", "clusters", _]:
            return "cluster"
        case ["admin", "clusters", _, "namespaceIsolationPolicies"]:
            return "isolation"
        case ["admin", "clusters", _, "failureDomain", _]:
            return "failure domain"
        case ["admin", "configuration"]:
            return "configuration"
        case ["admin", "policies", _]:
            return "tenant"
        case ["admin", "policies", _, _]:
            return "policies"
        case ["admin", "local-policies", _, _]:
            return "local policies"
        case ["loadbalance", "brokers", _]:
            return "broker"
        case ["loadbalance", "broker-time-average", _]:
            return "time average"
        case ["loadbalance", "leader"] | ["loadbalance", "extension", "leader"]:
            return "leader"
        case ["service_unit_state", _, _, _]:
            return "record"
        case ["namespace", _, _, _]:
            return "ownership"
        case _:
            return None


NAMED_MAPS = frozenset({".lastStats"})
NAMED_IN_ISOLATION = frozenset({""})
# What a document may leave out, as Pulsar omits nulls: no anti-affinity group, no owner before this one.
OPTIONAL = {"local policies": {"namespaceAntiAffinityGroup"}, "record": {"sourceBroker"}}


def shapes_by_kind(nodes: dict[str, tuple[Any, bool]]) -> dict[str, tuple[list[Shape], set[bool]]]:
    found: dict[str, tuple[list[Shape], set[bool]]] = {}
    for path, (document, is_ephemeral) in nodes.items():
        kind = kind_of(path)
        if kind is None or document is None:
            continue
        named = NAMED_IN_ISOLATION if kind == "isolation" else NAMED_MAPS
        document = {key: value for key, value in document.items() if key not in OPTIONAL.get(kind, ())}
        shapes, ephemeral = found.setdefault(kind, ([], set()))
        shapes.append(shape_of(document, named))
        ephemeral.add(is_ephemeral)
    return {kind: (merge(shapes), ephemeral) for kind, (shapes, ephemeral) in found.items()}


def walk(client: KazooClient, root: str, path: str = "") -> Iterator[tuple[str, Any, bool]]:
    """Return every node below a root with its document and whether it is ephemeral; paths are relative to the root."""
    for child in client.get_children(root + path):
        child_path = f"{path}/{child}"
        stat = client.exists(root + child_path)
        yield child_path, read_json(client, root + child_path), bool(stat.ephemeralOwner)
        yield from walk(client, root, child_path)


@pytest.fixture(scope="module", params=["extensible", "modular"])
def fleet(request: pytest.FixtureRequest, zookeeper: EmbeddedZooKeeper) -> Iterator[Fleet]:
    with running_fleet(
        zookeeper, f"/captures-{request.param}", load_manager=request.param, brokers=6, bundles=48
    ) as fleet:
        yield fleet
    client = KazooClient(zookeeper.connect_string)
    client.start(timeout=scaled(10))
    client.delete(f"/captures-{request.param}", recursive=True)
    client.stop()
    client.close()


def test_znodes_have_the_captured_fields_and_types(fleet: Fleet, client: KazooClient) -> None:
    captured = load_capture(f"{fleet.settings.load_manager}.znodes")
    # The modular capture still contains records left behind by the extensible manager.
    foreign = "/service_unit_state" if fleet.settings.load_manager == "modular" else "/namespace"
    expected = shapes_by_kind(
        {
            path: (node["data"], node["stat"]["ephemeral"])
            for path, node in captured.items()
            if not path.startswith(foreign)
        }
    )
    written = shapes_by_kind(
        {path: (document, is_ephemeral) for path, document, is_ephemeral in walk(client, fleet.settings.root)}
    )
    assert written.keys() == expected.keys()
    for kind, (shapes, is_ephemeral) in written.items():
        assert all(shape in expected[kind][0] for shape in shapes), kind
        assert is_ephemeral == expected[kind][1], kind


def test_modular_fleet_has_heartbeat_and_system_namespaces(fleet: Fleet, client: KazooClient) -> None:
    root = fleet.settings.root
    assert read_json(client, f"{root}/admin/local-policies/pulsar/system")["bundles"]["numBundles"] == 16
    if fleet.settings.load_manager == "modular":
        heartbeat = f"{root}/namespace/pulsar/{fleet.broker_ids[0]}/0x00000000_0xffffffff"
        assert client.exists(heartbeat).ephemeralOwner != 0


def test_ownership_nodes_are_ephemeral_where_pulsars_are(fleet: Fleet, client: KazooClient) -> None:
    """Modular ownership is ephemeral; the extensible manager's records outlive every session."""
    root = fleet.settings.root
    sessions = {b: client.exists(f"{root}/loadbalance/brokers/{b}").ephemeralOwner for b in fleet.broker_ids}
    assert len(set(sessions.values())) == len(fleet.broker_ids)
    is_modular = fleet.settings.load_manager == "modular"
    folder = "namespace" if is_modular else "service_unit_state"
    for bundle, owner in fleet.owners().items():
        expected = sessions[owner] if is_modular else 0
        assert client.exists(f"{root}/{folder}/{bundle}").ephemeralOwner == expected


def test_topics_document_has_the_captured_fields_and_types(fleet: Fleet) -> None:
    named = frozenset({"", ".*", ".*.*.persistent", ".*.*.persistent.*.subscriptions"})
    expected = [shape_of(load_capture(f"extensible.broker{number}.topics"), named) for number in (1, 2, 3)]
    topic_shapes = [
        shape for capture in expected for member in capture["*"] for inner in member["*"]
        for shape in inner["persistent"]["*"]
    ]  # fmt: skip
    served = shape_of(httpx.get(f"{fleet.web_url(fleet.broker_ids[0])}/admin/v2/broker-stats/topics").json(), named)
    [namespace_shape] = served["*"]
    [range_shape] = namespace_shape["*"]
    assert set(range_shape) == {"persistent"}
    assert range_shape["persistent"]["*"]
    for shape in range_shape["persistent"]["*"]:
        assert shape in topic_shapes


def test_metrics_document_has_the_captured_entries(fleet: Fleet) -> None:
    def by_dimensions(entries: list[dict[str, Any]]) -> dict[str, Shape]:
        return {
            json.dumps({k: v for k, v in entry["dimensions"].items() if k != "broker"}, sort_keys=True): shape_of(entry)
            for entry in entries
        }

    served = by_dimensions(httpx.get(f"{fleet.web_url(fleet.broker_ids[0])}/admin/v2/broker-stats/metrics").json())
    expected = by_dimensions(load_capture("extensible.broker1.metrics"))
    if fleet.settings.load_manager == "extensible":
        assert served == expected
    else:
        assert served == {key: shape for key, shape in expected.items() if key == '{"metric": "loadBalancing"}'}


def test_shapes_tell_fields_and_types_apart() -> None:
    assert shape_of({"a": 1}) != shape_of({"a": 1.0})
    assert shape_of({"a": 1}) != shape_of({"a": 1, "b": None})
    assert shape_of({"x": {"n": True}}, frozenset({""})) == shape_of({"y": {"n": False}}, frozenset({""}))
