"""Where Pulsar's split algorithms would cut a bundle."""

from __future__ import annotations

from collections.abc import Iterable

from evenkeel.model.bundles import BundleRange


def range_equally_divide(bundle: BundleRange) -> list[int]:
    """The middle of the range, whatever lies in it (Pulsar's default)."""
    middle = bundle.lower + (bundle.upper - bundle.lower) // 2
    return [middle] if bundle.lower < middle else []


def topic_count_equally_divide(topic_hashes: Iterable[int]) -> list[int]:
    """The position that leaves half of the topics on either side; none for fewer than two topics."""
    hashes = sorted(topic_hashes)
    if len(hashes) < 2:
        return []
    middle = len(hashes) // 2
    return [hashes[middle - 1] + (hashes[middle] - hashes[middle - 1]) // 2]


def specified_positions_divide(bundle: BundleRange, positions: Iterable[int]) -> list[int]:
    """Those of the given positions that lie strictly inside the range, in order."""
    return sorted({position for position in positions if bundle.lower < position < bundle.upper})
