"""Nodes and answers that somebody broke: what reads them says so in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from evenkeel.adapters.journals import Journals, Writer
from evenkeel.adapters.json_documents import JsonObject
from evenkeel.adapters.native_balancer import NativeBalancer
from evenkeel.adapters.ownership import decode_record
from evenkeel.adapters.zookeeper import Node
from evenkeel.adapters.zookeeper_reading import ZNode
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError, RefusedError

DEEP = pytest.param(b"[" * 200_000, id="deep")
CONNECTION = ClusterConnection("lab", "zk:2181")


class OneNode:
    """A session that finds the same data at every path."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def read(self, paths: Sequence[str]) -> list[Node]:
        return [Node(self._data, cast(Any, None)) for _ in paths]


def journals_over(data: bytes) -> Journals:
    return Journals(cast(Any, OneNode(data)), CONNECTION)


@pytest.mark.parametrize(
    "data",
    [
        DEEP,
        b"[]",
        b"5",
        b'"holder"',
        b'{"holder": "me", "plan_id": "p", "epoch": 1e999}',
        b'{"holder": "me", "plan_id": "p", "epoch": "1"}',
        b'{"holder": ["me"], "plan_id": "p", "epoch": 1}',
        b'{"holder": "me", "plan_id": "p"}',
    ],
)
def test_writer_that_cannot_be_read_is_told_with_its_node(data: bytes) -> None:
    with pytest.raises(InputError, match="/evenkeel/lab/writer is not of a writer of this version"):
        journals_over(data).writer()


def test_writer_may_tell_more_than_is_asked() -> None:
    data = b'{"holder": "me", "plan_id": "p", "epoch": 1, "since": [5]}'
    assert journals_over(data).writer() == Writer("me", "p", 1)


@pytest.mark.parametrize("data", [DEEP, b"[]", b'{"loadBalancerSheddingEnabled": true}'])
def test_configuration_that_is_no_map_of_texts_is_refused(data: bytes) -> None:
    balancer = NativeBalancer(cast(Any, OneNode(data)), "", cast(Any, None))
    with pytest.raises(RefusedError, match="/admin/configuration is no JSON map of strings"):
        balancer._decode(Node(data, cast(Any, None)))


@pytest.mark.parametrize("broker", [b'["b1:8080"]', b'{"b1:8080": 1}', b"8080"])
def test_record_whose_broker_is_no_text_makes_no_claim(broker: bytes) -> None:
    data = b'{"state":"Owned","dstBroker":%b,"force":false,"timestamp":1,"versionId":1}' % broker
    with pytest.raises(InputError, match="/service_unit_state/t/n/r holds no service-unit record"):
        decode_record(ZNode("/service_unit_state/t/n/r", data, 0, 1, 1, 1, 0))


def test_long_value_is_cut_in_the_sentence_that_refuses_it() -> None:
    document = JsonObject({"name": ["x" * 1_000_000] * 100}, "node")
    with pytest.raises(InputError, match="node: name = .* is not a text") as refusal:
        document.text("name")
    assert len(str(refusal.value)) < 1_000
