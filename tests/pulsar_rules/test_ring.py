"""Topics hash to the bundles that Pulsar puts them in, and splits cut where Pulsar cuts."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenkeel.model.bundles import RING_END, BundleRange
from evenkeel.model.errors import InputError
from evenkeel.pulsar_rules.ring import (
    find_range,
    hash_topic,
    range_equally_divide,
    specified_positions_divide,
    topic_count_equally_divide,
)

CAPTURES = Path(__file__).parents[1] / "data" / "captures"
SIXTEEN = [index * 0x10000000 for index in range(16)] + [RING_END]


@pytest.mark.parametrize("broker", [1, 2, 3])
def test_every_captured_topic_hashes_to_its_captured_bundle(broker: int) -> None:
    captured = json.loads((CAPTURES / f"pulsar-4.2.4-extensible.broker{broker}.topics.json").read_text())
    found = {
        (topic, str(find_range(SIXTEEN, hash_topic(topic))), text)
        for ranges in captured.values()
        for text, domains in ranges.items()
        for topic in domains["persistent"]
        if BundleRange.parse(text).lower in SIXTEEN and BundleRange.parse(text).upper in SIXTEEN
    }
    assert len(found) > 10
    assert all(computed == seen for _, computed, seen in found)


def test_the_end_of_the_ring_belongs_to_the_last_range() -> None:
    assert find_range(SIXTEEN, RING_END) == BundleRange(0xF0000000, RING_END)
    assert find_range(SIXTEEN, 0) == BundleRange(0, 0x10000000)


def test_a_namespace_without_boundaries_is_refused() -> None:
    with pytest.raises(InputError, match="boundaries"):
        find_range([], 5)


def test_the_full_range_is_halved_where_pulsar_halves_it() -> None:
    assert range_equally_divide(BundleRange(0, RING_END)) == [0x7FFFFFFF]
    assert range_equally_divide(BundleRange(4, 5)) == []


def test_topic_count_split_cuts_between_the_middle_topics() -> None:
    assert topic_count_equally_divide([10, 40, 20, 100]) == [30]
    assert topic_count_equally_divide([10]) == []


def test_positions_outside_the_range_are_dropped() -> None:
    assert specified_positions_divide(BundleRange(10, 20), [10, 15, 12, 20, 99]) == [12, 15]
