"""A clock that a test sets ahead, or back, while everything else goes on."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta


class SteppedClock:
    """The machine's clock, off by as much as a test wants; monotonic time does not follow."""

    def __init__(self, ahead_s: float = 0.0) -> None:
        self.ahead_s = ahead_s
        self.slept_s = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC) + timedelta(seconds=self.ahead_s)

    def monotonic_s(self) -> float:
        return time.monotonic() + self.slept_s

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
