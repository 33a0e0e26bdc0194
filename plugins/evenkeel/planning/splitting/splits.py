"""Replaces bundles that are to be split by their two children, which may then be moved like any other bundle."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from evenkeel.model.bundles import BundleName
from evenkeel.model.load import SplitCandidate
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.splitting.boundaries import PPB
from evenkeel.pulsar.state_machine import FIRST_VERSION_ID

# Load of a bundle → the part of it that the lower child gets. A broker's cpu is shared out by messages.
_PART_OF_LOAD = {
    "topics": "lower_topics_ppb",
    "sessions": "lower_sessions_ppb",
    "msg_rate_millis": "lower_msg_rate_ppb",
    "throughput_in": "lower_throughput_in_ppb",
    "throughput_out": "lower_throughput_out_ppb",
    "cpu_millipercent": "lower_msg_rate_ppb",
}


@dataclass(frozen=True, slots=True)
class PlannedSplit:
    """A bundle that a plan splits, and why."""

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
    """The names of the two adjacent children that a cut strictly inside a bundle's range leaves behind."""
    parent = BundleName.parse(bundle)
    lower, upper = parent.range.split_at(boundary)
    return str(dataclasses.replace(parent, range=lower)), str(dataclasses.replace(parent, range=upper))


def first_version_of(parent_version: int | None) -> int | None:
    """The version of a child's record right after the split; None where the cluster keeps no versions."""
    return None if parent_version is None else FIRST_VERSION_ID


def apply_splits(bundles: BundleColumns, splits: Sequence[PlannedSplit]) -> BundleColumns:
    """The bundles as they are once the splits are done: both children belong to the parent's owner."""
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
    """A whole load as those of the lower and the upper child; the odd unit goes to the lower one."""
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
