"""Replays a plan wave by wave and finds where it overloads a broker, crowds a group or makes the peak worse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

import numpy as np

from evenkeel.model.plan import Step, StepKind
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.arrays import Ints
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.floors import overload_caps
from evenkeel.planning.problem import limits_of
from evenkeel.planning.rules.group_rules import GroupReplay
from evenkeel.planning.rules.peak_rules import find_worse_peaks
from evenkeel.planning.rules.units import Units
from evenkeel.planning.rules.violation import Violation


def find_load_faults(
    steps: Sequence[Step],
    units: Units,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    necessary: frozenset[int],
) -> Iterator[Violation]:
    """Follow the steps wave by wave; `necessary` are the orders of those whose bundle could not stay."""
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
    """Load and topics of every broker as they are after each wave."""

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
        """Destinations that would be too full if everything of the wave arrived and nothing had left yet."""
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
                detail = f"wave {step.wave} can give {name} {topics[broker]} topics, where {self._topic_limit} are full"
                yield Violation("topic-limit", step.order, detail)

    def apply(self, steps: Sequence[Step]) -> None:
        """Let a wave settle; a split leaves its load where it is."""
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
