"""Small documents that become large in memory: their size is known before they are parsed."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from evenkeel.model.outside_json import estimate_memory, parse_json

MANY = 50_000
SHAPES: dict[str, bytes] = {
    "empty lists": b"[" + b"[]," * MANY + b"0]",
    "empty objects": b"[" + b"{}," * MANY + b"0]",
    "objects of one field": b"[" + b'{"":0},' * MANY + b"0]",
    "objects of two fields": b"[" + b'{"":0,"a":1},' * MANY + b"0]",
    "lists of one": b"[" + b"[0]," * MANY + b"0]",
    "nested lists": b"[" + (b"[" * 100 + b"]" * 100 + b",") * (MANY // 100) + b"0]",
    "nested objects": b"[" + (b'{"":' * 100 + b"0" + b"}" * 100 + b",") * (MANY // 100) + b"0]",
    "numbers": b"[" + b"1e9," * MANY + b"999]",
    "large numbers": b"[" + (b"9" * 4_000 + b",") * 50 + b"0]",
    "wide strings": b"[" + '"ā",'.encode() * MANY + b"0]",
    "strings beyond the first plane": b"[" + '"\U0001f600",'.encode() * MANY + b"0]",
    "one wide character": b'["' + b"a" * MANY * 10 + '\U0001f600"]'.encode(),
    "one escaped wide character": b'["' + b"a" * MANY * 10 + rb'\ud83d\ude00"]',
    "fields": b"{" + b",".join(b'"%d":0' % number for number in range(MANY)) + b"}",
    "wide fields": b"{" + ",".join(f'"{number}ā":0' for number in range(MANY)).encode() + b"}",
    "a long text": json.dumps("x" * MANY * 10).encode(),
}


@pytest.mark.parametrize("data", SHAPES.values(), ids=SHAPES)
def test_no_shape_takes_more_memory_than_was_estimated(data: bytes) -> None:
    tracemalloc.start()
    try:
        kept: Any = parse_json(data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert kept
    assert peak <= estimate_memory(data)
    assert estimate_memory(data.decode()) == estimate_memory(data)


@pytest.mark.parametrize("data", [SHAPES["empty objects"], SHAPES["empty objects"].decode()])
def test_document_beyond_the_limit_is_not_parsed(data: bytes | str) -> None:
    with pytest.raises(ValueError, match="it could take 20 MB of memory, the limit is 10 MB"):
        parse_json(data, most_memory_bytes=10_000_000)


def test_usual_document_is_estimated_at_a_few_times_its_size() -> None:
    stats = {
        "msgRateIn": 1.25,
        "msgThroughputIn": 1280.5,
        "producerCount": 3,
        "subscriptions": {"s": {"consumers": []}},
    }
    data = json.dumps({f"persistent://t/n/topic-{number}": stats for number in range(1_000)}).encode()
    assert estimate_memory(data) < 20 * len(data)
