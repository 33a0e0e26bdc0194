"""Replay a plan wave by wave to find where it overloads a broker, crowds a group or raises a peak above the band."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem.anti_affinity import domains_of, group_of
from evenkeel.planning.problem.band import PPB, lowest_peaks, overload_caps
from evenkeel.planning.problem.columns import BundleColumns, Floats, Ints
from evenkeel.planning.problem.pools import assign_pools, live_broker_ids
from evenkeel.planning.problem.problem import build_problem, limits_of, number
from evenkeel.planning.verifier.units import Units, Violation

Counts = Counter[tuple[str, str]]
# How far above the band a peak may appear because of rounding alone, as a share of the limit.
ROUNDING = 1e-6


def find_load_faults(
    steps: Sequence[Step],
    units: Units,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    necessary: frozenset[int],
) -> Iterator[Violation]:
    """Replay the steps wave by wave; `necessary` are the orders of the steps whose bundle could not stay."""
    loads = _Loads(units, brokers, settings)
    groups = GroupReplay(units, brokers, policies)
    for _, wave in groupby(sorted(steps, key=lambda step: step.wave), key=lambda step: step.wave):
        in_wave = list(wave)
        yield from loads.find_overfull(in_wave)
        yield from groups.find_crowding(in_wave)
        loads.apply(in_wave)
        groups.apply(in_wave)
    forced = {str(step.destination) for step in steps if step.order in necessary and step.kind == StepKind.TRANSFER}
    yield from find_worse_peaks(loads.before, loads.used, brokers, bundles, policies, settings, forced)


class _Loads:
    """Load and topics of every broker after each wave."""

    def __init__(self, units: Units, brokers: Sequence[Broker], settings: Settings) -> None:
        self._units, self._brokers = units, brokers
        self._index = {broker.broker_id: row for row, broker in enumerate(brokers)}
        self._line = overload_caps(limits_of(brokers, settings), settings)
        self._topic_limit = settings.broker_max_topics
        owner = np.array([self._index.get(name, -1) for name in units.owner[: units.in_snapshot]], dtype=np.int64)
        owned = np.flatnonzero(owner >= 0)
        self.used = np.zeros_like(self._line)
        self._topics = np.zeros(len(brokers), dtype=np.int64)
        np.add.at(self.used, owner[owned], units.load[owned])
        np.add.at(self._topics, owner[owned], units.topics[owned])
        self.before = self.used.copy()

    def find_overfull(self, steps: Sequence[Step]) -> Iterator[Violation]:
        """Find destinations that would be too full if the whole wave had arrived and nothing had left yet."""
        arrivals = [step for step in steps if step.kind == StepKind.TRANSFER]
        last = {self._index[str(step.destination)]: step for step in arrivals}
        load, topics = self.used.copy(), self._topics.copy()
        rows, destinations = self._rows(arrivals), [self._index[str(step.destination)] for step in arrivals]
        np.add.at(load, destinations, self._units.load[rows])
        np.add.at(topics, destinations, self._units.topics[rows])
        excess = (load - np.maximum(self._line, self.before)).max(axis=1)
        for broker in sorted(last):
            step, name = last[broker], self._brokers[broker].broker_id
            if excess[broker] > 0:
                detail = f"wave {step.wave} can drive {name} above the overload line, and above what it carried before"
                yield Violation("overload", step.order, detail)
            if topics[broker] >= self._topic_limit:
                detail = (
                    f"wave {step.wave} can give {name} {topics[broker]} topics, where the limit is {self._topic_limit}"
                )
                yield Violation("topic-limit", step.order, detail)

    def apply(self, steps: Sequence[Step]) -> None:
        """Apply a settled wave; a split leaves its load where it is."""
        leaving = [step for step in steps if step.kind != StepKind.SPLIT]
        arriving = [step for step in leaving if step.kind == StepKind.TRANSFER]
        for moved, broker_of, sign in (
            (leaving, [step.source for step in leaving], -1),
            (arriving, [str(step.destination) for step in arriving], 1),
        ):
            rows, brokers = self._rows(moved), [self._index[name] for name in broker_of]
            np.add.at(self.used, brokers, sign * self._units.load[rows])
            np.add.at(self._topics, brokers, sign * self._units.topics[rows])

    def _rows(self, steps: Sequence[Step]) -> Ints:
        return np.array([self._units.rows[step.bundle] for step in steps], dtype=np.int64)


class GroupReplay:
    """Bundles of each anti-affinity group per broker and failure domain after each wave; neither peak may rise."""

    def __init__(self, units: Units, brokers: Sequence[Broker], policies: Policies) -> None:
        self._domain = dict(zip((broker.broker_id for broker in brokers), domains_of(brokers, policies), strict=True))
        names, name_of_unit = number(units.namespace)
        groups = [group_of(name, policies) for name in names]
        self._group_of = {
            name: str(groups[name_of_unit[row]])
            for name, row in units.rows.items()
            if groups[name_of_unit[row]] is not None
        }
        owned = [
            (group, units.owner[units.rows[name]])
            for name, group in self._group_of.items()
            if units.rows[name] < units.in_snapshot and units.owner[units.rows[name]] in self._domain
        ]
        self._on_broker: Counts = Counter(owned)
        self._in_domain: Counts = Counter((group, self._domain[owner]) for group, owner in owned)
        self._broker_peaks, self._domain_peaks = _group_peaks(self._on_broker), _group_peaks(self._in_domain)

    def find_crowding(self, steps: Sequence[Step]) -> Iterator[Violation]:
        """Find groups that would exceed a peak if the whole wave had arrived and nothing had left yet."""
        on_broker, in_domain = self._on_broker.copy(), self._in_domain.copy()
        for step in steps:
            group = self._group_of.get(step.bundle)
            if group is None or step.kind == StepKind.UNLOAD:
                continue
            # A split gives its owner one more bundle.
            broker = step.source if step.kind == StepKind.SPLIT else str(step.destination)
            domain = self._domain[broker]
            on_broker[group, broker] += 1
            in_domain[group, domain] += step.kind == StepKind.SPLIT or domain != self._domain[step.source]
            if on_broker[group, broker] > self._broker_peaks[group]:
                yield _crowded(step, group, broker, on_broker[group, broker], self._broker_peaks[group])
            if in_domain[group, domain] > self._domain_peaks[group]:
                where = f"failure domain {domain}"
                yield _crowded(step, group, where, in_domain[group, domain], self._domain_peaks[group])

    def apply(self, steps: Sequence[Step]) -> None:
        """Apply a settled wave."""
        for step in steps:
            group = self._group_of.get(step.bundle)
            if group is None:
                continue
            if step.kind == StepKind.SPLIT:
                self._count(group, step.source, 1)
            else:
                self._count(group, step.source, -1)
            if step.kind == StepKind.TRANSFER:
                self._count(group, str(step.destination), 1)

    def _count(self, group: str, broker: str, change: int) -> None:
        self._on_broker[group, broker] += change
        self._in_domain[group, self._domain[broker]] += change


def _group_peaks(counts: Counts) -> Counter[str]:
    peaks: Counter[str] = Counter()
    for (group, _), count in counts.items():
        peaks[group] = max(peaks[group], count)
    return peaks


def _crowded(step: Step, group: str, where: str, count: int, peak: int) -> Violation:
    detail = f"{where} could own {count} bundles of group {group}, where the most was {peak} before"
    return Violation("anti-affinity", step.order, detail)


def find_worse_peaks(
    before: Ints,
    after: Ints,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    forced: Collection[str],
) -> Iterator[Violation]:
    """Find pools that end with a higher peak than before, above the band.

    Pools of the brokers in `forced` are exempt: these had to take bundles whose owner could not keep them.
    """
    assignment = assign_pools(set(bundles.namespace.tolist()), live_broker_ids(brokers), policies)
    limit = limits_of(brokers, settings)
    pool_of_row = [assignment.pool_of_broker.get(broker.broker_id) for broker in brokers]
    exempt = {assignment.pool_of_broker.get(name) for name in forced}
    for pool in sorted({pool for pool in pool_of_row if pool is not None} - exempt):
        members = np.flatnonzero([its_pool == pool for its_pool in pool_of_row])
        old, new = (_peaks(used[members], limit[members]) for used in (before, after))
        if (new <= old).all():
            continue
        own = bundles.take(np.flatnonzero([assignment.pool_of_namespace[name] == pool for name in bundles.namespace]))
        peaks = lowest_peaks(build_problem(pool, brokers, own, policies, settings))
        band = np.maximum(np.array(peaks) / PPB * (1 + settings.tolerance), settings.min_utilisation)
        for resource in np.flatnonzero((new > old) & (new > band + ROUNDING)).tolist():
            yield Violation(
                "worse-peak",
                None,
                f"the highest {RESOURCES[resource]} of pool {pool} rises from {old[resource]:.1%} to "
                f"{new[resource]:.1%}, above the band, which ends at {band[resource]:.1%}",
            )


def _peaks(used: Ints, limit: Ints) -> Floats:
    """The highest utilisation of each resource, over the brokers with a known limit."""
    peaks: Floats = np.where(limit > 0, used / np.maximum(limit, 1), 0.0).max(axis=0, initial=0.0)
    return peaks
