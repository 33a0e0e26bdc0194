"""Rules for single steps and for splits: bundle, versions, destination, cuts, children, and the ring they leave."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.model.bundles import BundleName, BundleRange, find_ring_fault, is_system_namespace
from evenkeel.model.errors import InputError
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.problem.problem import EMPTIED_STATES
from evenkeel.planning.problem.receiving import Receivers
from evenkeel.planning.splitting.cuts import Cut, children_of, divide
from evenkeel.planning.verifier.units import Units, Violation, can_be_cut

FEWEST_TOPICS = 2
# In the order of a unit's figures; cpu follows the messages.
_PARTS = (
    "lower_msg_rate_ppb",
    "lower_throughput_in_ppb",
    "lower_throughput_out_ppb",
    "lower_topics_ppb",
    "lower_sessions_ppb",
)


@dataclass(frozen=True, slots=True)
class Excluded:
    """What no plan may touch: namespaces, single bundles, and all that certain brokers own."""

    namespaces: frozenset[str]
    bundles: frozenset[str]
    brokers: frozenset[str]


class StepRules:
    """Rules for one step, whatever the others do: its bundle matches the snapshot, its destination may receive it."""

    def __init__(self, units: Units, brokers: Mapping[str, Broker], receivers: Receivers, excluded: Excluded) -> None:
        self._units, self._brokers, self._receivers, self._excluded = units, brokers, receivers, excluded

    def check(self, step: Step) -> Iterator[Violation]:
        """Find every rule that a step breaks."""
        if step.kind not in set(StepKind):
            yield Violation("unknown-kind", step.order, f"{step.kind!r} is not a kind of step")
        row = self._units.rows.get(step.bundle)
        if row is None:
            yield Violation("unknown-bundle", step.order, f"{step.bundle} is not in the snapshot")
            return
        yield from self._check_bundle(step, row)
        if step.kind == StepKind.TRANSFER:
            yield from self._check_destination(step, self._units.namespace[row])
        elif step.kind == StepKind.UNLOAD and step.destination is not None:
            yield Violation("destination", step.order, "Pulsar decides where an unloaded bundle goes")

    def is_necessary(self, step: Step) -> bool:
        """Whether the bundle could not stay, because its owner is not eligible or has to be emptied."""
        namespace = self._units.namespace[self._units.rows[step.bundle]]
        is_emptied = self._brokers[step.source].state in EMPTIED_STATES
        return is_emptied or self._receivers.is_misplaced(namespace, step.source)

    def can_be_replayed(self, step: Step) -> bool:
        """Whether the bundle and the brokers of a step are in the snapshot."""
        is_known = step.bundle in self._units.rows and step.source in self._brokers
        return is_known and (step.kind != StepKind.TRANSFER or step.destination in self._brokers)

    def _check_bundle(self, step: Step, row: int) -> Iterator[Violation]:
        units = self._units
        namespace, owner = units.namespace[row], units.owner[row]
        if owner != step.source:
            yield Violation("wrong-owner", step.order, f"{step.source} does not own {step.bundle}, {owner} does")
        yield from self._check_incarnation(step, self._brokers.get(step.source), step.source_incarnation)
        version = units.version_id[row]
        if version != step.expected_version_id:
            detail = f"the record of {step.bundle} has version {version}, not {step.expected_version_id}"
            yield Violation("version", step.order, detail)
        if units.state[row] != ServiceUnitState.OWNED:
            yield Violation("in-flight", step.order, f"{step.bundle} is {units.state[row]} in the snapshot")
        if is_system_namespace(namespace):
            yield Violation("system-namespace", step.order, f"Pulsar pins {namespace} to its broker")
        if namespace in self._excluded.namespaces:
            yield Violation("excluded-namespace", step.order, f"{namespace} is excluded from changes")
        if step.bundle in self._excluded.bundles:
            yield Violation("pinned-bundle", step.order, f"{step.bundle} is pinned to its broker")
        if step.source in self._excluded.brokers:
            yield Violation("left-alone", step.order, f"{step.source} is to be left alone")

    def _check_destination(self, step: Step, namespace: str) -> Iterator[Violation]:
        destination = self._brokers.get(str(step.destination))
        if destination is None:
            yield Violation("unknown-destination", step.order, f"{step.destination} is not a broker of the snapshot")
            return
        if step.destination == step.source:
            yield Violation("moves-to-itself", step.order, f"{step.bundle} would move to its present owner")
        yield from self._check_incarnation(step, destination, step.destination_incarnation)
        refusal = self._receivers.find_refusal(namespace, self._brokers.get(step.source), destination)
        if refusal is not None:
            rule, why = refusal
            yield Violation(rule, step.order, why)

    def _check_incarnation(self, step: Step, broker: Broker | None, stated: int | None) -> Iterator[Violation]:
        if broker is not None and broker.incarnation != stated:
            detail = (
                f"{broker.broker_id} is registered as incarnation {broker.incarnation} in the snapshot, not {stated}"
            )
            yield Violation("incarnation", step.order, detail)


def find_split_faults(
    steps: Sequence[Step], units: Units, brokers: Mapping[str, Broker], cuts: Mapping[str, Cut]
) -> Iterator[Violation]:
    """Find every violation of the rules for splits; a child may move in a later wave than the one that creates it."""
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
        detail = f"{step.bundle} is created in wave {split.wave} and can only be changed in a later wave"
        yield Violation("child-order", step.order, detail)


def _find_part_fault(step: Step, split: Step, units: Units, cut: Cut | None) -> str | None:
    """Why the load that a step states for a child is wrong; all other rules rely on that load."""
    if cut is None or cut.boundary != split.split_boundary:
        return f"no cut of {split.bundle} tells what {step.bundle} carries, so it may not move"
    parent, stated = units.figures[units.rows[split.bundle]], units.figures[units.rows[step.bundle]]
    side = children_of(split.bundle, cut.boundary).index(step.bundle)
    part = [divide(int(whole), getattr(cut, name))[side] for whole, name in zip(parent, _PARTS, strict=True)]
    return None if stated.tolist() == part else f"{step.bundle} does not carry what its parent's cut gives it"


def _find_lost_load(splits: Sequence[Step], units: Units) -> Iterator[Violation]:
    """Find splits whose children do not add up to their parent."""
    for split in splits:
        children = [units.rows[name] for name, step in units.split_of.items() if step is split]
        if not children:
            continue
        parent = units.figures[units.rows[split.bundle]]
        figures = units.figures[children]
        if (figures < 0).any() or not np.array_equal(figures.sum(axis=0), parent):
            yield Violation("split-load", split.order, f"the children of {split.bundle} do not carry what it carries")


def _find_broken_rings(splits: Sequence[Step], units: Units) -> Iterator[Violation]:
    """Find namespaces whose bundles cover the ring exactly before the splits but not after them."""
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
    """The ranges of bundles; None if a name is not that of a bundle."""
    try:
        return [BundleName.parse(name).range for name in names]
    except InputError:
        return None
