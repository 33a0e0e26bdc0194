"""The hash ring of a namespace: where a topic lies on it, and where Pulsar's split algorithms would cut a bundle."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from evenkeel.model.bundles import BundleRange
from evenkeel.model.errors import InputError

FEWEST_TOPICS = 2


def hash_topic(topic: str) -> int:
    """The position of a topic on the ring; the full name is needed, as in persistent://tenant/namespace/name-partition-0."""
    return zlib.crc32(topic.encode())


def find_range(boundaries: Sequence[int], topic_hash: int) -> BundleRange:
    """Find the range between a namespace's sorted boundaries that contains a position."""
    if len(boundaries) < 2:
        raise InputError("the namespace has fewer than two boundaries", "read them from /admin/local-policies")
    # The ring's end belongs to the last range, hence the clamp.
    index = min(bisect_right(boundaries, topic_hash), len(boundaries) - 1) - 1
    if index < 0:
        raise InputError(f"{topic_hash:#010x} is below the first boundary", "start the boundaries at 0x00000000")
    return BundleRange(boundaries[index], boundaries[index + 1])


def range_equally_divide(bundle: BundleRange) -> list[int]:
    """The middle of the range, regardless of its topics (Pulsar's default)."""
    middle = bundle.lower + (bundle.upper - bundle.lower) // 2
    return [middle] if bundle.lower < middle else []


def topic_count_equally_divide(topic_hashes: Iterable[int]) -> list[int]:
    """The position that leaves half of the topics on either side; none for fewer than two topics."""
    hashes = sorted(topic_hashes)
    if len(hashes) < FEWEST_TOPICS:
        return []
    middle = len(hashes) // 2
    return [hashes[middle - 1] + (hashes[middle] - hashes[middle - 1]) // 2]


def specified_positions_divide(
    bundle: BundleRange, positions: Iterable[int], topic_count: int | None = None
) -> list[int]:
    """The given positions that are strictly inside the range, in order; none for fewer than two topics.

    Without a count, topics are ignored, as in Pulsar's forced variant.
    """
    if topic_count is not None and topic_count < FEWEST_TOPICS:
        return []
    return sorted({position for position in positions if bundle.lower < position < bundle.upper})
