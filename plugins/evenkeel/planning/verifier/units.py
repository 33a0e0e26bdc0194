"""Violations, and the bundles that a plan's steps can name: those of the snapshot and the children of its splits."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import InputError
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.planning.problem.columns import BundleColumns, Ints, Objects
from evenkeel.planning.splitting.cuts import children_of, first_version_of

GOALS = frozenset({"overload", "worse-peak"})
"""Rules about balance only: a planner must keep them, but a person who chose the steps may overrule them."""
_TOPICS, _SESSIONS = 3, 4


@dataclass(frozen=True, slots=True)
class Violation:
    """A broken rule, the order of the step that breaks it (None for the whole plan), and an explanation."""

    rule: str
    order: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class Units:
    """The bundles that steps can name: those of the snapshot in the first rows, then the children of the plan's splits.

    `figures` has one row per unit: the load in the order of `RESOURCES`, then topics and sessions. Those of a child are
    what the plan states, which `find_split_faults` checks; those of a child that stays are what its sibling leaves.
    """

    rows: Mapping[str, int]
    in_snapshot: int
    namespace: Objects
    owner: Objects
    version_id: Objects
    state: Objects
    figures: Ints
    split_of: Mapping[str, Step]

    @classmethod
    def of(cls, bundles: BundleColumns, steps: Sequence[Step]) -> Units:
        rows = {name: row for row, name in enumerate(bundles.bundle.tolist())}
        figures = np.column_stack([bundles.loads(), bundles.topics, bundles.sessions]).astype(np.int64)
        stated = {step.bundle: _stated(step) for step in steps if step.kind != StepKind.SPLIT}
        children: dict[str, tuple[Step, int, Ints]] = {}
        for step in steps:
            row = rows.get(step.bundle)
            if step.kind != StepKind.SPLIT or row is None or not can_be_cut(step):
                continue
            lower, upper = children_of(step.bundle, int(step.split_boundary or 0))
            # A child that stays may carry any part, as long as nothing is lost.
            of_upper = stated.get(upper, figures[row] - stated.get(lower, figures[row]))
            children[lower] = (step, row, stated.get(lower, figures[row] - of_upper))
            children[upper] = (step, row, of_upper)
        parents = [parent for _, parent, _ in children.values()]
        return cls(
            rows=rows | {name: len(rows) + place for place, name in enumerate(children)},
            in_snapshot=len(bundles),
            namespace=np.concatenate([bundles.namespace, bundles.namespace[parents]]),
            owner=np.concatenate([bundles.owner, bundles.owner[parents]]),
            version_id=np.array([*bundles.version_id, *map(first_version_of, bundles.version_id[parents])], object),
            state=np.concatenate([bundles.state, np.full(len(parents), ServiceUnitState.OWNED, dtype=object)]),
            figures=np.concatenate([figures, *(of_child[None] for _, _, of_child in children.values())]),
            split_of={name: step for name, (step, _, _) in children.items()},
        )

    @property
    def load(self) -> Ints:
        return self.figures[:, :_TOPICS]

    @property
    def topics(self) -> Ints:
        topics: Ints = self.figures[:, _TOPICS]
        return topics

    @property
    def sessions(self) -> Ints:
        sessions: Ints = self.figures[:, _SESSIONS]
        return sessions


def can_be_cut(step: Step) -> bool:
    """Whether a split's boundary is strictly inside its bundle's range, so that there are two children."""
    try:
        part = BundleName.parse(step.bundle).range
    except InputError:
        return False
    return step.split_boundary is not None and part.lower < step.split_boundary < part.upper


def parents_of(steps: Iterable[Step]) -> dict[str, str]:
    """The parent of each child that the splits among these steps create."""
    return {
        child: step.bundle
        for step in steps
        if step.kind == StepKind.SPLIT and can_be_cut(step)
        for child in children_of(step.bundle, int(step.split_boundary or 0))
    }


def _stated(step: Step) -> Ints:
    """The figures that a step states for its bundle."""
    return np.array([*step.load, step.topics, step.sessions], dtype=np.int64)
