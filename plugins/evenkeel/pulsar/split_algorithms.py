"""Where Pulsar's split algorithms would cut a bundle."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from evenkeel.model.bundles import BundleRange

FEWEST_TOPICS = 2


@dataclass(frozen=True, slots=True)
class TopicTraffic:
    """A topic's place on the ring, and its messages and bytes per second, in and out together."""

    hash: int
    msg_rate: float
    throughput: float


def range_equally_divide(bundle: BundleRange) -> list[int]:
    """The middle of the range, whatever lies in it (Pulsar's default)."""
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
    """Those of the given positions that lie strictly inside the range, in order; none for fewer than two topics.

    Without a count the topics are not looked at, as in Pulsar's forced variant.
    """
    if topic_count is not None and topic_count < FEWEST_TOPICS:
        return []
    return sorted({position for position in positions if bundle.lower < position < bundle.upper})


def flow_or_qps_equally_divide(
    topics: Iterable[TopicTraffic], most_msg_rate: float, most_bytes: float, margin: float
) -> list[int]:
    """Positions that leave each part within both limits where one topic alone does not exceed them; maybe several.

    None where the bundle has fewer than two topics with traffic, or lies less than `margin` (0.1 = 10 %) above both
    limits. Pulsar's extensible manager refuses the result unless it is exactly one position.
    """
    busy = {topic.hash: topic for topic in topics if topic.msg_rate > 0 or topic.throughput > 0}
    ordered = [busy[position] for position in sorted(busy)]
    msg_rate = sum(topic.msg_rate for topic in ordered)
    throughput = sum(topic.throughput for topic in ordered)
    is_large = msg_rate >= most_msg_rate * (1 + margin) or throughput >= most_bytes * (1 + margin)
    if len(ordered) < FEWEST_TOPICS or not is_large:
        return []
    cuts: list[int] = []
    before = ordered[0]
    msg_rate, throughput = before.msg_rate, before.throughput
    for topic in ordered[1:]:
        if msg_rate + topic.msg_rate > most_msg_rate or throughput + topic.throughput > most_bytes:
            cuts.append(before.hash + (topic.hash - before.hash) // 2 + 1)
            msg_rate = throughput = 0.0
        msg_rate += topic.msg_rate
        throughput += topic.throughput
        before = topic
    return cuts
