"""Finds where to cut a bundle in two: where its load is halved best, else its topics, else its range."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import StrEnum

import numpy as np

from evenkeel.model.bundles import BundleRange
from evenkeel.planning.arrays import Bools, Floats, Ints
from evenkeel.pulsar.split_algorithms import range_equally_divide

PPB = 1_000_000_000
HALF_PPB = PPB // 2


class CutBasis(StrEnum):
    """What a cut was chosen by, from the best to the last resort."""

    TOPIC_LOAD = "topic load"
    TOPIC_COUNT = "topic count"
    RANGE = "middle of the range"


@dataclass(frozen=True, slots=True)
class TopicColumns:
    """The topics of one bundle as columns: place on the ring, sessions, and load in integer units."""

    hash: Ints
    msg_rate_millis: Ints
    throughput_in: Ints
    throughput_out: Ints
    sessions: Ints

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, np.asarray(getattr(self, field.name), dtype=np.int64))

    def loads(self) -> Ints:
        """What a cut should halve, a column each: messages, which cpu follows, and bytes in and out."""
        return np.stack([self.msg_rate_millis, self.throughput_in, self.throughput_out], axis=1)


NO_TOPICS = TopicColumns(*([] for _ in fields(TopicColumns)))  # type: ignore[arg-type]  # lists are turned into arrays


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a bundle is cut, and which part of it goes to the lower child, in parts per billion, rounded down.

    A part that is not known is a half.
    """

    boundary: int
    boundary_by: CutBasis
    lower_topics_ppb: int = HALF_PPB
    lower_sessions_ppb: int = HALF_PPB
    lower_msg_rate_ppb: int = HALF_PPB
    lower_throughput_in_ppb: int = HALF_PPB
    lower_throughput_out_ppb: int = HALF_PPB


def find_cut(bundle: BundleRange, topics: TopicColumns) -> Cut | None:
    """The best cut into two children; where topics are known, each child has at least one. None where there is none."""
    boundaries, lower_topics = _cuts_between_topics(bundle, topics.hash)
    if not len(boundaries):
        middle = range_equally_divide(bundle)
        return cut_at(bundle, topics, middle[0]) if middle else None
    loads = topics.loads()[np.argsort(topics.hash, kind="stable")]
    weights = loads if loads.any() else np.ones((len(loads), 1), dtype=np.int64)
    best = int(np.argmin(_larger_halves(weights, lower_topics)))
    return cut_at(bundle, topics, int(boundaries[best]))


def cut_at(bundle: BundleRange, topics: TopicColumns, boundary: int) -> Cut:
    """What a cut at this boundary gives to the lower child; where no cut could part the topics, nothing is known."""
    if not len(_cuts_between_topics(bundle, topics.hash)[0]):
        return Cut(boundary, CutBasis.RANGE)
    is_lower = topics.hash < boundary
    return Cut(
        boundary=boundary,
        boundary_by=CutBasis.TOPIC_LOAD if topics.loads().any() else CutBasis.TOPIC_COUNT,
        lower_topics_ppb=_part(np.ones(len(is_lower), dtype=np.int64), is_lower),
        lower_sessions_ppb=_part(topics.sessions, is_lower),
        lower_msg_rate_ppb=_part(topics.msg_rate_millis, is_lower),
        lower_throughput_in_ppb=_part(topics.throughput_in, is_lower),
        lower_throughput_out_ppb=_part(topics.throughput_out, is_lower),
    )


def _cuts_between_topics(bundle: BundleRange, hashes: Ints) -> tuple[Ints, Ints]:
    """A position between any two neighbours on the ring, and how many topics lie below it."""
    ordered = np.sort(hashes)
    gaps = np.diff(ordered)
    # A child begins at its boundary, so the boundary has to lie above the topic before it.
    positions = ordered[:-1] + gaps // 2 + 1
    cuts = np.flatnonzero((gaps > 0) & (positions > bundle.lower) & (positions < bundle.upper))
    return positions[cuts], cuts + 1


def _larger_halves(weights: Ints, lower_topics: Ints) -> Floats:
    """For each cut the larger part of what it divides worst."""
    counted = weights[:, weights.any(axis=0)]
    totals = counted.sum(axis=0)
    lower = np.cumsum(counted, axis=0)[lower_topics - 1]
    halves: Floats = (np.maximum(lower, totals - lower) / totals).max(axis=1)
    return halves


def _part(values: Ints, is_lower: Bools) -> int:
    total = int(values.sum())
    return int(values[is_lower].sum()) * PPB // total if total else HALF_PPB
