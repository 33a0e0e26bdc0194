"""The pace of a run: how many of its steps have ended, how fast, and how long the rest will take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evenkeel.model.plan import Step
from evenkeel.model.run import StepResult, StepState

LINE_EVERY_S = 5.0
_UNDER_WAY = (StepState.INTENDED, StepState.APPLIED)


@dataclass(slots=True)
class Pace:
    """Counts the steps that have finished, and estimates how long the rest will take."""

    steps: Sequence[Step]
    began_s: float
    _wave_of: dict[int, int] = field(init=False)
    _ended: set[int] = field(default_factory=set)
    _wave: int = 0
    _last: str = ""

    def __post_init__(self) -> None:
        self._wave_of = {step.order: step.wave for step in self.steps}

    def note(self, result: StepResult) -> None:
        self._wave = max(self._wave, self._wave_of.get(result.order, 0))
        self._last = f"{result.bundle} {result.state}"
        if result.state not in _UNDER_WAY:
            self._ended.add(result.order)

    @property
    def done(self) -> int:
        return len(self._ended)

    def steps_per_s(self, now_s: float) -> float:
        return self.done / (now_s - self.began_s) if now_s > self.began_s else 0.0

    @property
    def waves(self) -> int:
        return max(self._wave_of.values(), default=0) + 1

    @property
    def wave(self) -> int:
        """The wave under way, from 1."""
        return self._wave + 1

    def tell(self, now_s: float) -> str:
        """Return the wave, the speed, the time left and the last event in one line."""
        told = [f"wave {self.wave} of {self.waves}"]
        speed = self.steps_per_s(now_s)
        if speed:
            told.append(f"{speed:.1f} steps/s")
            left_s = (len(self.steps) - self.done) / speed
            told += [f"about {_duration(left_s)} left"] if self.done < len(self.steps) else []
        return ", ".join([*told, self._last] if self._last else told)


class SparseLines:
    """Tells the pace every few seconds and at the end, so that the log of a long run stays short."""

    def __init__(self, pace: Pace, tell: Callable[[str], None]) -> None:
        self._pace, self._tell = pace, tell
        self._last_line_s = time.monotonic()

    def note(self, result: StepResult) -> None:
        self._pace.note(result)
        now_s, total = time.monotonic(), len(self._pace.steps)
        if now_s - self._last_line_s >= LINE_EVERY_S or self._pace.done == total:
            self._last_line_s = now_s
            self._tell(f"{self._pace.done} of {total} steps, {self._pace.tell(now_s)}")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
