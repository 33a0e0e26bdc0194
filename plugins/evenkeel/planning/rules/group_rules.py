"""Follows the anti-affinity groups through the waves of a plan and finds where one gets more crowded than before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from evenkeel.model.plan import Step, StepKind
from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import Broker
from evenkeel.planning.anti_affinity import domains_of, group_of
from evenkeel.planning.problem import number
from evenkeel.planning.rules.units import Units
from evenkeel.planning.rules.violation import Violation

Counts = Counter[tuple[str, str]]


class GroupReplay:
    """How many bundles of each group a broker and a failure domain own after each wave; neither peak may rise."""

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
        self._broker_peaks, self._domain_peaks = _peaks(self._on_broker), _peaks(self._in_domain)

    def find_crowding(self, steps: Sequence[Step]) -> Iterator[Violation]:
        """Groups of which a broker or a domain would own too many if the wave's bundles came and none had left yet."""
        on_broker, in_domain = self._on_broker.copy(), self._in_domain.copy()
        for step in steps:
            group = self._group_of.get(step.bundle)
            if group is None or step.kind == StepKind.UNLOAD:
                continue
            # A split leaves one bundle more with its owner.
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
        """Let a wave settle."""
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


def _peaks(counts: Counts) -> Counter[str]:
    peaks: Counter[str] = Counter()
    for (group, _), count in counts.items():
        peaks[group] = max(peaks[group], count)
    return peaks


def _crowded(step: Step, group: str, where: str, count: int, peak: int) -> Violation:
    detail = f"{where} can own {count} bundles of group {group}; the most was {peak} before"
    return Violation("anti-affinity", step.order, detail)
