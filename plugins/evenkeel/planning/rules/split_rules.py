"""Finds what is wrong with a plan's splits: cuts, children, their order, and the ring that they leave behind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from evenkeel.model.bundles import BundleName, BundleRange, find_ring_fault
from evenkeel.model.errors import InputError
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.rules.units import Units, can_be_cut
from evenkeel.planning.rules.violation import Violation
from evenkeel.planning.splitting.boundaries import Cut
from evenkeel.planning.splitting.splits import children_of, divide

FEWEST_TOPICS = 2
# In the order of a unit's figures; cpu follows the messages.
_PARTS = (
    "lower_msg_rate_ppb",
    "lower_throughput_in_ppb",
    "lower_throughput_out_ppb",
    "lower_topics_ppb",
    "lower_sessions_ppb",
)


def find_split_faults(
    steps: Sequence[Step], units: Units, brokers: Mapping[str, Broker], cuts: Mapping[str, Cut]
) -> Iterator[Violation]:
    """Every breach of the rules of splits; a child may be moved by a later wave than the one that makes it."""
    splits = [step for step in steps if step.kind == StepKind.SPLIT]
    for step in splits:
        yield from _check_split(step, units, brokers)
    for step in steps:
        if step.bundle in units.split_of:
            yield from _check_child(step, units.split_of[step.bundle], units, cuts)
    yield from _find_lost_load(splits, units)
    yield from _find_broken_rings(splits, units)


def _check_split(step: Step, units: Units, brokers: Mapping[str, Broker]) -> Iterator[Violation]:
    if not can_be_cut(step):
        cut = "nowhere" if step.split_boundary is None else f"at {step.split_boundary:#010x}"
        yield Violation("boundary", step.order, f"{step.bundle} is cut {cut}, not strictly inside its range")
    if step.destination is not None:
        yield Violation("destination", step.order, f"a split leaves {step.bundle} where it is")
    row = units.rows.get(step.bundle)
    if row is not None and units.topics[row] < FEWEST_TOPICS:
        yield Violation("split-topics", step.order, f"{step.bundle} has fewer than {FEWEST_TOPICS} topics")
    source = brokers.get(step.source)
    if source is not None and source.state != BrokerState.ACTIVE:
        yield Violation("not-active", step.order, f"{step.source} is {source.state} and may not get more bundles")


def _check_child(step: Step, split: Step, units: Units, cuts: Mapping[str, Cut]) -> Iterator[Violation]:
    if step.kind == StepKind.SPLIT:
        yield Violation("split-again", step.order, f"{step.bundle} is itself a child of this plan's splits")
    elif (fault := _find_part_fault(step, split, units, cuts.get(split.bundle))) is not None:
        yield Violation("split-load", step.order, fault)
    if step.wave <= split.wave:
        detail = f"{step.bundle} is made by wave {split.wave}, and cannot be changed before a later one"
        yield Violation("child-order", step.order, detail)


def _find_part_fault(step: Step, split: Step, units: Units, cut: Cut | None) -> str | None:
    """Why what a step says of a child is not believed; every other rule counts with what it says."""
    if cut is None or cut.boundary != split.split_boundary:
        return f"nothing says which part of {split.bundle} {step.bundle} carries, so that it may not move"
    parent, stated = units.figures[units.rows[split.bundle]], units.figures[units.rows[step.bundle]]
    side = children_of(split.bundle, cut.boundary).index(step.bundle)
    part = [divide(int(whole), getattr(cut, name))[side] for whole, name in zip(parent, _PARTS, strict=True)]
    return None if stated.tolist() == part else f"{step.bundle} does not carry what its parent's cut gives it"


def _find_lost_load(splits: Sequence[Step], units: Units) -> Iterator[Violation]:
    """Children whose figures are not those of their parent, divided."""
    for split in splits:
        children = [units.rows[name] for name, step in units.split_of.items() if step is split]
        if not children:
            continue
        parent = units.figures[units.rows[split.bundle]]
        figures = units.figures[children]
        if (figures < 0).any() or not np.array_equal(figures.sum(axis=0), parent):
            yield Violation("split-load", split.order, f"the children of {split.bundle} do not carry what it carries")


def _find_broken_rings(splits: Sequence[Step], units: Units) -> Iterator[Violation]:
    """Namespaces whose bundles tile the ring before the splits and not after them."""
    names = list(units.rows)
    by_namespace: dict[str, list[Step]] = defaultdict(list)
    for step in splits:
        row = units.rows.get(step.bundle, units.in_snapshot)
        if row < units.in_snapshot and can_be_cut(step):
            by_namespace[units.namespace[row]].append(step)
    for namespace, cuts in sorted(by_namespace.items()):
        rows = np.flatnonzero(units.namespace[: units.in_snapshot] == namespace).tolist()
        before = _ranges([names[row] for row in rows])
        if before is None or find_ring_fault(before) is not None:
            continue
        parents = [BundleName.parse(step.bundle).range for step in cuts]
        children = [
            child
            for step, parent in zip(cuts, parents, strict=True)
            for child in parent.split_at(int(step.split_boundary or 0))
        ]
        fault = find_ring_fault([*(set(before) - set(parents)), *children])
        if fault is not None:
            yield Violation("ring", None, f"the bundles of {namespace} would leave {fault}")


def _ranges(names: Sequence[str]) -> list[BundleRange] | None:
    """The ranges of bundles; None where a name is none of a bundle."""
    try:
        return [BundleName.parse(name).range for name in names]
    except InputError:
        return None
