"""What more capacity would do for a pool: one more broker for all of it, or for the namespaces that are short of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenkeel.planning.arrays import Bools, Ints
from evenkeel.planning.floors import PPB, lowest_peak
from evenkeel.planning.problem import PoolProblem


@dataclass(frozen=True, slots=True)
class Squeeze:
    """Namespaces that share a set of brokers, and how full they make it by themselves; `policy` is None for shared."""

    policy: str | None
    brokers: int
    peak: float
    peak_with_one_more: float


class Headroom:
    """One resource of a pool: the load of each class of namespaces, and the brokers that may carry it."""

    def __init__(self, problem: PoolProblem, resource: int) -> None:
        self._problem = problem
        takes_part = problem.can_receive & (problem.limit[:, resource] > 0)
        counted = (takes_part[problem.owner] & ~problem.is_stranded) | problem.must_move
        self._limit: Ints = problem.limit[:, resource]
        self._eligible: Bools = problem.eligible & takes_part
        self._class_load = np.zeros(len(problem.eligible), dtype=np.int64)
        np.add.at(self._class_load, problem.eligibility_class[counted], problem.load[counted, resource])
        limits = self._limit[takes_part]
        # The lower of the two in the middle, so that a broker of that size really exists.
        self._median = int(np.sort(limits)[(len(limits) - 1) // 2]) if len(limits) else 0
        self._capacity = int(limits.sum())

    @property
    def evenly(self) -> float:
        """The peak if every broker could carry everything."""
        return int(self._class_load.sum()) / self._capacity if self._capacity else 0.0

    def peak_with_one_more(self) -> float:
        """The lowest peak with one more broker of the median size that may own everything."""
        wider = np.hstack([self._eligible, np.ones((len(self._eligible), 1), dtype=bool)])
        return lowest_peak(self._class_load, wider, np.append(self._limit, self._median)) / PPB

    def brokers_to_get_below(self, line: float) -> int:
        """How many brokers of the median size bring the even peak below a line."""
        missing = int(self._class_load.sum()) / line - self._capacity
        return max(0, math.ceil(missing / self._median)) if self._median else 0

    def tightest(self) -> Squeeze | None:
        """The class of namespaces that fills the brokers that it may use most, by itself."""
        capacity = (self._eligible * self._limit).sum(axis=1)
        known = capacity > 0
        if not known.any():
            return None
        # Classes of the same brokers weigh on them together.
        together = np.array([self._class_load[(self._eligible == row).all(axis=1)].sum() for row in self._eligible])
        peaks = np.where(known, together / np.maximum(capacity, 1), -1.0)
        worst = int(np.argmax(peaks))
        return Squeeze(
            self._problem.class_policies[worst],
            int(self._eligible[worst].sum()),
            float(peaks[worst]),
            float(together[worst] / (capacity[worst] + self._median)),
        )
