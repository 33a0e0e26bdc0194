"""Where a topic lies on its namespace's ring, and so in which bundle."""

from __future__ import annotations

import zlib
from bisect import bisect_right
from collections.abc import Sequence

from evenkeel.model.bundles import BundleRange
from evenkeel.model.errors import InputError


def hash_topic(topic: str) -> int:
    """The position of a topic, given by its full name such as persistent://tenant/namespace/name-partition-0."""
    return zlib.crc32(topic.encode())


def find_range(boundaries: Sequence[int], topic_hash: int) -> BundleRange:
    """The range between a namespace's sorted boundaries that holds a position."""
    if len(boundaries) < 2:
        raise InputError("the namespace has fewer than two boundaries", "read them from /admin/local-policies")
    # The ring's end belongs to the last range, hence the clamp.
    index = min(bisect_right(boundaries, topic_hash), len(boundaries) - 1) - 1
    if index < 0:
        raise InputError(f"{topic_hash:#010x} lies before the first boundary", "start the boundaries at 0x00000000")
    return BundleRange(boundaries[index], boundaries[index + 1])
