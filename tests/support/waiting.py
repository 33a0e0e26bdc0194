"""Waiting for what comes about in its own time, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable

POLL_S = 0.02


def eventually(is_so: Callable[[], bool], within_s: float = 10.0) -> bool:
    """Whether something comes about in time."""
    deadline_s = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True
