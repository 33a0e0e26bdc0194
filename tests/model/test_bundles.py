"""Names of bundles, and the ring that they tile."""

from __future__ import annotations

import pytest

from evenkeel.model.bundles import (
    RING_END,
    BundleName,
    BundleRange,
    find_ring_fault,
    is_system_namespace,
    ranges_between,
)
from evenkeel.model.errors import InputError


def test_bundle_name_survives_a_round_trip() -> None:
    text = "acme/orders/0x40000000_0x80000000"
    name = BundleName.parse(text)
    assert (str(name), name.namespace, name.range.lower) == (text, "acme/orders", 0x40000000)


@pytest.mark.parametrize(
    "text",
    [
        "acme/orders",
        "acme/orders/0x40000000-0x80000000",
        "acme/orders/0x40000000_0x8000000",
        "acme/orders/0xABCDEF00_0xffffffff",
        "acme/orders/0x80000000_0x40000000",
        "acme/orders/0x80000000_0x80000000",
        "acme//0x00000000_0xffffffff",
        "ac me/orders/0x00000000_0xffffffff",
        "a/b/c/0x00000000_0xffffffff",
    ],
)
def test_anything_but_pulsars_spelling_is_refused(text: str) -> None:
    with pytest.raises(InputError):
        BundleName.parse(text)


def test_the_rings_end_belongs_to_the_last_range() -> None:
    assert RING_END in BundleRange(0x80000000, RING_END)
    assert 0x80000000 not in BundleRange(0, 0x80000000)


def test_split_leaves_two_adjacent_children() -> None:
    left, right = BundleRange(0, RING_END).split_at(0x7FFFFFFF)
    assert (left.upper, right.lower) == (0x7FFFFFFF, 0x7FFFFFFF)
    with pytest.raises(InputError):
        BundleRange(0, 16).split_at(16)


@pytest.mark.parametrize(
    ("boundaries", "fault"),
    [
        ([0, 0x40000000, RING_END], None),
        ([0, 0x40000000, 0x80000000], "a gap from 0x80000000 to 0xffffffff"),
        ([0x10000000, RING_END], "a gap from 0x00000000 to 0x10000000"),
    ],
)
def test_gap_in_the_ring_is_named(boundaries: list[int], fault: str | None) -> None:
    assert find_ring_fault(ranges_between(boundaries)) == fault


def test_overlap_in_the_ring_is_named() -> None:
    ranges = [BundleRange(0, 0x80000000), BundleRange(0x40000000, RING_END)]
    assert find_ring_fault(ranges) == "an overlap at 0x40000000_0xffffffff"


def test_namespaces_that_pulsar_pins_are_recognised() -> None:
    pinned = ["pulsar/system", "pulsar/b1.example.com:8080", "sla-monitor/b1:8080"]
    assert [is_system_namespace(name) for name in pinned] == [True] * 3
    assert not is_system_namespace("pulsar/functions")
    assert not is_system_namespace("acme/orders")
