"""How far a run has come: a bar for who watches, plain lines for a log, silence beside a JSON document."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evenkeel.cli.output import err, escape
from evenkeel.model.plan import Step
from evenkeel.model.run import StepResult, StepState

LINE_EVERY_S = 5.0
_UNDER_WAY = (StepState.INTENDED, StepState.APPLIED)


@dataclass(slots=True)
class Pace:
    """Counts the steps that have come to an end, and tells how fast they do and how long the rest will take."""

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

    def tell(self, now_s: float) -> str:
        """Wave, speed, what is left and what came last, in one line."""
        waves = max(self._wave_of.values(), default=0) + 1
        told = [f"wave {self._wave + 1} of {waves}"]
        speed = self.steps_per_s(now_s)
        if speed:
            told.append(f"{speed:.1f} steps/s")
            left_s = (len(self.steps) - self.done) / speed
            told += [f"about {_duration(left_s)} left"] if self.done < len(self.steps) else []
        return ", ".join([*told, self._last] if self._last else told)


@contextmanager
def following(steps: Sequence[Step], as_json: bool) -> Iterator[Callable[[StepResult], None]]:
    """Show a run while it goes on, on standard error; answers a function to call with each result."""
    pace = Pace(steps, time.monotonic())
    if as_json:
        yield pace.note
    elif err.is_terminal:
        with _bar() as bar:
            task = bar.add_task("applying", total=len(steps), told="")

            def redraw(result: StepResult) -> None:
                pace.note(result)
                bar.update(task, completed=pace.done, told=escape(pace.tell(time.monotonic())))

            yield redraw
    else:
        yield _Lines(pace, len(steps)).note


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    return Progress(*columns, TimeElapsedColumn(), console=err, transient=True)


class _Lines:
    """A line every few seconds, and one at the end, so that a log tells of a long run and stays short."""

    def __init__(self, pace: Pace, total: int) -> None:
        self._pace, self._total = pace, total
        self._last_line_s = time.monotonic()

    def note(self, result: StepResult) -> None:
        self._pace.note(result)
        now_s = time.monotonic()
        if now_s - self._last_line_s >= LINE_EVERY_S or self._pace.done == self._total:
            self._last_line_s = now_s
            err.print(f"{self._pace.done} of {self._total} steps, {escape(self._pace.tell(now_s))}")


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
