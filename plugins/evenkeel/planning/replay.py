"""Replays a plan wave by wave and finds where it overloads a broker, crowds a group or makes the peak worse."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from itertools import groupby

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import Step
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.anti_affinity import domains_of, group_of
from evenkeel.planning.arrays import Ints
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.floors import PPB, lowest_peaks
from evenkeel.planning.pools import assign_pools, live_broker_ids
from evenkeel.planning.problem import build_problem, limits_of
from evenkeel.planning.violation import Violation

# How far above the band a peak may seem to be for no other reason than rounding, in parts of the limit.
ROUNDING = Fraction(1, 1_000_000)


def find_load_faults(
    transfers: Sequence[Step],
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    necessary: frozenset[int],
) -> Iterator[Violation]:
    """Follow the transfers wave by wave; `necessary` are the orders of those whose bundle could not stay."""
    replay = _Replay(brokers, bundles, policies, settings)
    before = replay.used.copy()
    for _, wave in groupby(sorted(transfers, key=lambda step: step.wave), key=lambda step: step.wave):
        steps = list(wave)
        yield from replay.find_overloads(steps, before)
        yield from replay.find_crowding(steps)
        replay.apply(steps)
    yield from _find_worse_peaks(replay, before, transfers, necessary)


class _Replay:
    """The loads and groups of the cluster as they are after each wave."""

    def __init__(
        self, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
    ) -> None:
        self.brokers, self.bundles, self.policies, self.settings = brokers, bundles, policies, settings
        self.index = {broker.broker_id: row for row, broker in enumerate(brokers)}
        self.rows = {str(name): row for row, name in enumerate(bundles.bundle)}
        self.limit = limits_of(brokers)
        self.load = bundles.loads()
        self.used = np.zeros_like(self.limit)
        owned = np.flatnonzero([owner in self.index for owner in bundles.owner])
        owners = np.array([self.index[owner] for owner in bundles.owner[owned]], dtype=np.intp)
        np.add.at(self.used, owners, self.load[owned])
        self.domains = domains_of(brokers, policies)
        self.per_broker: Counter[tuple[str, int]] = Counter()
        self.per_domain: Counter[tuple[str, str]] = Counter()
        for row, owner in zip(owned.tolist(), owners.tolist(), strict=True):
            group = group_of(str(bundles.namespace[row]), policies)
            if group is not None:
                self.per_broker[group, owner] += 1
                self.per_domain[group, self.domains[owner]] += 1
        self.broker_peaks, self.domain_peaks = _peaks(self.per_broker), _peaks(self.per_domain)

    def find_overloads(self, steps: Sequence[Step], before: Ints) -> Iterator[Violation]:
        """Destinations that would be too full if everything of the wave arrived and nothing had left yet."""
        line = Fraction(str(self.settings.broker_overloaded_threshold_percentage)) / 100
        arriving: dict[int, list[Step]] = defaultdict(list)
        for step in steps:
            arriving[self.index[str(step.destination)]].append(step)
        for broker, arrivals in sorted(arriving.items()):
            load = self.used[broker] + self.load[[self.rows[step.bundle] for step in arrivals]].sum(axis=0)
            worst, allowed = _worst(load, self.limit[broker]), max(line, _worst(before[broker], self.limit[broker]))
            if worst > allowed:
                yield Violation(
                    "overload",
                    arrivals[-1].order,
                    f"wave {arrivals[-1].wave} can drive {self.brokers[broker].broker_id} to {float(worst):.1%} of its "
                    f"limit, where {float(allowed):.1%} is allowed",
                )

    def find_crowding(self, steps: Sequence[Step]) -> Iterator[Violation]:
        """Groups of which a broker or a failure domain would own more than any did before the plan."""
        on_broker: Counter[tuple[str, int]] = Counter()
        in_domain: Counter[tuple[str, str]] = Counter()
        for step, group, source, destination in self._grouped(steps):
            on_broker[group, destination] += 1
            count = self.per_broker[group, destination] + on_broker[group, destination]
            if count > self.broker_peaks[group]:
                where = self.brokers[destination].broker_id
                yield _crowded(step, group, where, count, self.broker_peaks[group])
            domain = self.domains[destination]
            in_domain[group, domain] += domain != self.domains[source]
            count = self.per_domain[group, domain] + in_domain[group, domain]
            if count > self.domain_peaks[group]:
                yield _crowded(step, group, f"failure domain {domain}", count, self.domain_peaks[group])

    def apply(self, steps: Sequence[Step]) -> None:
        for step in steps:
            load = self.load[self.rows[step.bundle]]
            self.used[self.index[step.source]] -= load
            self.used[self.index[str(step.destination)]] += load
        for _, group, source, destination in self._grouped(steps):
            self.per_broker[group, source] -= 1
            self.per_broker[group, destination] += 1
            self.per_domain[group, self.domains[source]] -= 1
            self.per_domain[group, self.domains[destination]] += 1

    def _grouped(self, steps: Iterable[Step]) -> Iterator[tuple[Step, str, int, int]]:
        for step in steps:
            group = group_of(str(self.bundles.namespace[self.rows[step.bundle]]), self.policies)
            if group is not None:
                yield step, group, self.index[step.source], self.index[str(step.destination)]


def _find_worse_peaks(
    replay: _Replay, before: Ints, transfers: Sequence[Step], necessary: frozenset[int]
) -> Iterator[Violation]:
    """Pools whose highest utilisation rose above the band; pools that had to take bundles in are let off."""
    live = live_broker_ids(replay.brokers)
    assignment = assign_pools((str(name) for name in replay.bundles.namespace), live, replay.policies)
    forced = {assignment.pool_of_broker.get(str(step.destination)) for step in transfers if step.order in necessary}
    members: dict[str, list[int]] = defaultdict(list)
    for broker, pool in assignment.pool_of_broker.items():
        members[pool].append(replay.index[broker])
    for pool in sorted(set(members) - forced):
        floors: tuple[int, ...] | None = None
        for resource, name in enumerate(RESOURCES):
            old, new = (_peak(used, replay.limit, members[pool], resource) for used in (before, replay.used))
            if new <= old:
                continue
            floors = floors or lowest_peaks(
                build_problem(pool, replay.brokers, replay.bundles, replay.policies, replay.settings)
            )
            band = Fraction(floors[resource], PPB) * Fraction(str(1 + replay.settings.tolerance))
            if new > band + ROUNDING:
                detail = f"the highest {name} of pool {pool} rises from {float(old):.1%} to {float(new):.1%}"
                yield Violation("worse-peak", None, f"{detail}, above the band, which ends at {float(band):.1%}")


def _worst(load: Ints, limit: Ints) -> Fraction:
    parts = [Fraction(int(value), int(most)) for value, most in zip(load, limit, strict=True) if most]
    return max(parts, default=Fraction(0))


def _peak(used: Ints, limit: Ints, rows: Sequence[int], resource: int) -> Fraction:
    return max((_worst(used[row, [resource]], limit[row, [resource]]) for row in rows), default=Fraction(0))


def _crowded(step: Step, group: str, where: str, count: int, peak: int) -> Violation:
    return Violation(
        "anti-affinity", step.order, f"{where} can own {count} bundles of group {group}; the most was {peak} before"
    )


def _peaks(counts: Counter[tuple[str, int]] | Counter[tuple[str, str]]) -> dict[str, int]:
    peaks: dict[str, int] = {}
    for (group, _), count in counts.items():
        peaks[group] = max(peaks.get(group, 0), count)
    return peaks
