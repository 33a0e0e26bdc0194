"""The spread of load that TransferShedder works against, and its two pointers: the fullest and the emptiest broker."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class LoadStats:
    """Mean and standard deviation of the brokers' loads, kept up to date while load is marked to move."""

    average: float
    std: float
    brokers_by_load: Sequence[str]
    brokers_shed: int = 0
    _square_sum: float = field(default=0.0, repr=False)
    _count: int = field(default=0, repr=False)
    _emptiest: int = 0
    _fullest: int = 0

    @classmethod
    def of(cls, loads: Iterable[float], brokers_by_load: Sequence[str]) -> LoadStats:
        """Statistics of the loads that count; the brokers may be more, since stale ones stay in the order."""
        total, square_sum, count = 0.0, 0.0, 0
        for load in loads:
            total += load
            square_sum += load * load
            count += 1
        average = total / count if count else 0.0
        std = _root(square_sum / count - average * average) if count else 0.0
        return cls(average, std, brokers_by_load, 0, square_sum, count, 0, len(brokers_by_load) - 1)

    @property
    def emptiest(self) -> str:
        return self.brokers_by_load[self._emptiest]

    @property
    def fullest(self) -> str:
        return self.brokers_by_load[self._fullest]

    def has_pair(self) -> bool:
        """Whether the pointers have not met yet."""
        return self._emptiest < self._fullest

    def take_fullest(self) -> str:
        """The fullest broker that was not looked at yet."""
        broker = self.fullest
        self._fullest -= 1
        return broker

    def move(self, fuller: float, emptier: float, moved: float) -> None:
        """Account for load that goes from one broker to another, and turn to the next emptiest."""
        self._square_sum -= fuller * fuller + emptier * emptier
        fuller_after = max(0.0, fuller - moved)
        emptier_after = emptier + moved
        self._square_sum += fuller_after * fuller_after + emptier_after * emptier_after
        self.std = math.sqrt(abs(self._square_sum / self._count - self.average * self.average))
        self.brokers_shed += 1
        self._emptiest += 1


def _root(variance: float) -> float:
    """The root as Java takes it: rounding can leave a variance just below zero, whose root compares with nothing."""
    return math.sqrt(variance) if variance >= 0 else math.nan
