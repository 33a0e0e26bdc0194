"""Where to cut a bundle in two, and the two children that a cut leaves behind.

A bundle is cut where its load is halved best; without topic loads where its topics are halved, and without topics in
the middle of its range. The children replace the bundle in the planner's columns and may then move like any other.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, fields
from enum import StrEnum
from typing import Any

import numpy as np

from evenkeel.model.bundles import BundleName, BundleRange
from evenkeel.model.load import SplitCandidate
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.planning.problem.columns import Bools, BundleColumns, Floats, Ints
from evenkeel.pulsar_rules.ring import range_equally_divide
from evenkeel.pulsar_rules.state_machine import FIRST_VERSION_ID

PPB = 1_000_000_000
HALF_PPB = PPB // 2
# Load of a bundle → the part of it that the lower child gets. Cpu follows the messages.
_PART_OF_LOAD = {
    "topics": "lower_topics_ppb",
    "sessions": "lower_sessions_ppb",
    "msg_rate_millis": "lower_msg_rate_ppb",
    "throughput_in": "lower_throughput_in_ppb",
    "throughput_out": "lower_throughput_out_ppb",
    "cpu_millipercent": "lower_msg_rate_ppb",
}


class CutBasis(StrEnum):
    """What a cut is based on, from best to last resort."""

    TOPIC_LOAD = "topic load"
    TOPIC_COUNT = "topic count"
    RANGE = "middle of the range"


@dataclass(frozen=True, slots=True)
class TopicColumns:
    """The topics of one bundle as columns: position on the ring, sessions, and load in integer units."""

    hash: Ints
    msg_rate_millis: Ints
    throughput_in: Ints
    throughput_out: Ints
    sessions: Ints

    def __post_init__(self) -> None:
        for field in fields(self):
            object.__setattr__(self, field.name, np.asarray(getattr(self, field.name), dtype=np.int64))

    def loads(self) -> Ints:
        """What a cut should halve, one column each: messages, which cpu follows, and bytes in and out."""
        return np.stack([self.msg_rate_millis, self.throughput_in, self.throughput_out], axis=1)


NO_TOPICS = TopicColumns(*([] for _ in fields(TopicColumns)))  # type: ignore[arg-type]  # lists are converted to arrays


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a bundle is cut, and the parts that go to the lower child, in parts per billion, rounded down.

    An unknown part counts as one half.
    """

    boundary: int
    boundary_by: CutBasis
    lower_topics_ppb: int = HALF_PPB
    lower_sessions_ppb: int = HALF_PPB
    lower_msg_rate_ppb: int = HALF_PPB
    lower_throughput_in_ppb: int = HALF_PPB
    lower_throughput_out_ppb: int = HALF_PPB


def find_cut(bundle: BundleRange, topics: TopicColumns) -> Cut | None:
    """Find the best cut; if topics are known, each child gets at least one. None if the bundle cannot be cut."""
    boundaries, lower_topics = _cuts_between_topics(bundle, topics.hash)
    if not len(boundaries):
        middle = range_equally_divide(bundle)
        return cut_at(bundle, topics, middle[0]) if middle else None
    loads = topics.loads()[np.argsort(topics.hash, kind="stable")]
    weights = loads if loads.any() else np.ones((len(loads), 1), dtype=np.int64)
    best = int(np.argmin(_larger_halves(weights, lower_topics)))
    return cut_at(bundle, topics, int(boundaries[best]))


def cut_at(bundle: BundleRange, topics: TopicColumns, boundary: int) -> Cut:
    """Compute what a cut at this boundary gives to the lower child; unknown if no cut can separate the topics."""
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
    """The positions between neighbouring topics on the ring, and the number of topics below each."""
    ordered = np.sort(hashes)
    gaps = np.diff(ordered)
    # The upper child starts at the boundary, so the boundary has to be above the topic before it.
    positions = ordered[:-1] + gaps // 2 + 1
    cuts = np.flatnonzero((gaps > 0) & (positions > bundle.lower) & (positions < bundle.upper))
    return positions[cuts], cuts + 1


def _larger_halves(weights: Ints, lower_topics: Ints) -> Floats:
    """For each cut, the larger part of the load that it divides worst."""
    counted = weights[:, weights.any(axis=0)]
    totals = counted.sum(axis=0)
    lower = np.cumsum(counted, axis=0)[lower_topics - 1]
    halves: Floats = (np.maximum(lower, totals - lower) / totals).max(axis=1)
    return halves


def _part(values: Ints, is_lower: Bools) -> int:
    total = int(values.sum())
    return int(values[is_lower].sum()) * PPB // total if total else HALF_PPB


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """A bundle that a plan splits, with the reason."""

    candidate: SplitCandidate
    reason: str

    @property
    def bundle(self) -> str:
        return self.candidate.bundle

    @property
    def children(self) -> tuple[str, str]:
        """The names of the lower and the upper child."""
        return children_of(self.candidate.bundle, self.candidate.boundary)


def children_of(bundle: str, boundary: int) -> tuple[str, str]:
    """The names of the two adjacent children of a bundle that is cut strictly inside its range."""
    parent = BundleName.parse(bundle)
    lower, upper = parent.range.split_at(boundary)
    return str(dataclasses.replace(parent, range=lower)), str(dataclasses.replace(parent, range=upper))


def first_version_of(parent_version: int | None) -> int | None:
    """The version of a child's record right after the split; None if the cluster keeps no versions."""
    return None if parent_version is None else FIRST_VERSION_ID


def apply_splits(bundles: BundleColumns, splits: Sequence[PlannedSplit]) -> BundleColumns:
    """Replace the split bundles by their children, which belong to the parent's owner."""
    if not splits:
        return bundles
    place = {name: row for row, name in enumerate(bundles.bundle.tolist())}
    parents = [place[split.bundle] for split in splits]
    kept = np.setdiff1d(np.arange(len(bundles)), parents)
    children = [child for split, row in zip(splits, parents, strict=True) for child in _children(bundles, row, split)]
    columns: dict[str, Any] = {}
    for field in dataclasses.fields(BundleColumns):
        column = getattr(bundles, field.name)
        added = np.array([child[field.name] for child in children], dtype=column.dtype)
        columns[field.name] = np.concatenate([column[kept], added])
    return BundleColumns(**columns)


def divide(load: int, lower_ppb: int) -> tuple[int, int]:
    """Divide a load between the lower and the upper child; an odd unit goes to the lower one."""
    lower = -(-load * lower_ppb // PPB)
    return lower, load - lower


def _children(bundles: BundleColumns, row: int, split: PlannedSplit) -> list[dict[str, Any]]:
    parts = {
        load: divide(int(getattr(bundles, load)[row]), getattr(split.candidate, part))
        for load, part in _PART_OF_LOAD.items()
    }
    both = {
        "namespace": bundles.namespace[row],
        "owner": bundles.owner[row],
        "version_id": first_version_of(bundles.version_id[row]),
        "state": ServiceUnitState.OWNED,
    }
    return [
        {**both, "bundle": name, **{load: part[side] for load, part in parts.items()}}
        for side, name in enumerate(split.children)
    ]
