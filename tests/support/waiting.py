"""Waiting with a deadline. Every deadline of the tests is scaled by one factor, so a busy machine makes no test fail.

`EVENKEEL_TEST_SLOWNESS` sets the factor. Without it, the test run measures once how much longer than its own CPU time
a busy loop takes, and stretches that further where there are more test processes than cores.
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from functools import cache

SLOWNESS_VARIABLE = "EVENKEEL_TEST_SLOWNESS"
POLL_S = 0.02
SETTLE_TIMEOUT_S = 20.0
MEASURED_CPU_S = 0.2
MOST_SLOWNESS = 20.0


def measure_slowness(workers: int) -> float:
    """How many times longer things take now than they would on idle cores, with this many test processes."""
    started_s, started_cpu_s = time.monotonic(), time.thread_time()
    while time.thread_time() - started_cpu_s < MEASURED_CPU_S:
        pass
    stretch = (time.monotonic() - started_s) / MEASURED_CPU_S
    # Most test processes wait most of the time, so twice as many of them as cores do not make everything twice as slow.
    crowding = math.sqrt(workers / (os.cpu_count() or 1))
    return min(max(1.0, stretch) * max(1.0, crowding), MOST_SLOWNESS)


@cache
def slowness() -> float:
    """The factor of this test run, 1 on an idle machine; child processes inherit it."""
    given = os.environ.get(SLOWNESS_VARIABLE)
    if not given:
        return 1.0
    factor = float(given)
    assert factor > 0, f"{SLOWNESS_VARIABLE} is {given}: give a factor above 0, such as 3"
    return factor


def scaled(seconds: float) -> float:
    """A deadline or time-out of an idle machine, stretched for this one."""
    return seconds * slowness()


def eventually(is_met: Callable[[], bool], within_s: float = 10.0) -> bool:
    """Poll until a condition holds; returns whether it did before the scaled deadline."""
    deadline_s = time.monotonic() + scaled(within_s)
    while not is_met():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(POLL_S)
    return True


def wait_for(is_met: Callable[[], bool], what: str, within_s: float = SETTLE_TIMEOUT_S) -> None:
    """Poll until a condition holds; fail with a sentence if it does not before the scaled deadline."""
    assert eventually(is_met, within_s), f"not in {scaled(within_s):g} s: {what}"
