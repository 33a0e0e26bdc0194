"""Tells on standard error what the bench is doing, so that nobody wonders whether it still runs."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console


class Narrator:
    """A spinner with the present work, and a line for each piece that is done."""

    def __init__(self, console: Console, pieces: int) -> None:
        self._console = console
        self._status = console.status("starting")
        self._pieces = pieces
        self._done = 0
        self._started_at_s = time.monotonic()

    def __enter__(self) -> Narrator:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def doing(self, what: str) -> None:
        """Show what is being worked on."""
        self._status.update(what)

    def done(self, what: str) -> None:
        """Tell of a finished piece."""
        self._done += 1
        elapsed_s = round(time.monotonic() - self._started_at_s)
        clock = f"{elapsed_s // 60:3d}:{elapsed_s % 60:02d}"
        self._console.print(
            f"{clock}  {self._done}/{self._pieces}  {what}", highlight=False, markup=False, soft_wrap=True
        )
