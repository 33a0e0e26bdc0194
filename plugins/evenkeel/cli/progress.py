"""Progress of a run: a bar at a terminal, plain lines in a log, nothing with --json."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from evenkeel.cli.output import err, escape
from evenkeel.execution.pace import Pace, SparseLines
from evenkeel.model.plan import Step
from evenkeel.model.run import StepResult


@contextmanager
def following(steps: Sequence[Step], as_json: bool) -> Iterator[Callable[[StepResult], None]]:
    """Show the progress of a run on standard error; yields a function to call with each result."""
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
        yield SparseLines(pace, lambda line: err.print(escape(line))).note


def _bar() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[told]}"))
    return Progress(*columns, TimeElapsedColumn(), console=err, transient=True)
