"""Nodes and answers that somebody broke: what reads them says so in one sentence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.cluster.ownership import decode_record
from evenkeel.adapters.fencing.journal import JournalReader, Writer
from evenkeel.adapters.fencing.native_balancer import NativeBalancer
from evenkeel.adapters.zookeeper.nodes import ZNode
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.model.errors import InputError, RefusedError

DEEP = pytest.param(b"[" * 200_000, id="deep")
PATHS = EvenkeelPaths("/evenkeel/lab")


class OneNode:
    """A session that finds the same data at every path."""

    def __init__(self, data: bytes) -> None:
        self._data = data

    def get(self, paths: Sequence[str]) -> list[ZNode]:
        return [make_node(path, self._data) for path in paths]


def make_node(path: str, data: bytes) -> ZNode:
    return ZNode(path, data, version=0, czxid=1, mzxid=1, mtime_ms=1, ephemeral_owner=0)


def journals_over(data: bytes) -> JournalReader:
    return JournalReader(cast(Any, OneNode(data)), PATHS)


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
    with pytest.raises(InputError, match="/evenkeel/lab/writer was not written by this version of Evenkeel"):
        journals_over(data).writer()


def test_writer_may_tell_more_than_is_asked() -> None:
    data = b'{"holder": "me", "plan_id": "p", "epoch": 1, "since": [5]}'
    assert journals_over(data).writer() == Writer("me", "p", 1)


@pytest.mark.parametrize("data", [DEEP, b"[]", b'{"loadBalancerSheddingEnabled": true}'])
def test_configuration_that_is_no_map_of_texts_is_refused(data: bytes) -> None:
    balancer = NativeBalancer(cast(Any, OneNode(data)), PulsarPaths(), cast(Any, None))
    with pytest.raises(RefusedError, match="/admin/configuration is not a JSON object of strings"):
        balancer._decode(make_node(balancer.path, data))


@pytest.mark.parametrize("broker", [b'["b1:8080"]', b'{"b1:8080": 1}', b"8080"])
def test_record_whose_broker_is_no_text_makes_no_claim(broker: bytes) -> None:
    data = b'{"state":"Owned","dstBroker":%b,"force":false,"timestamp":1,"versionId":1}' % broker
    with pytest.raises(InputError, match="/service_unit_state/t/n/r is not a service-unit record"):
        decode_record(make_node("/service_unit_state/t/n/r", data))


def test_long_value_is_cut_in_the_sentence_that_refuses_it() -> None:
    document = JsonObject({"name": ["x" * 1_000_000] * 100}, "node")
    with pytest.raises(InputError, match="node: name = .* is not a text") as refusal:
        document.text("name")
    assert len(str(refusal.value)) < 1_000
