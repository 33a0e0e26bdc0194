"""This machine: its clock, its memory, its Java, and the signals that ask a process to stop."""

from __future__ import annotations

import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

from evenkeel.model.errors import UnavailableError

SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Where a container's memory limit is found: version 2 of control groups, then version 1.
CGROUP_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def monotonic_s() -> float:
    """Seconds that only ever rise, and that go on while the machine is suspended, where the system can tell."""
    # Python's own monotonic clock stands still while a Linux machine sleeps: a deadline would seem far away afterwards.
    return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return monotonic_s()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def find_java() -> Path:
    """Find Java: JAVA_HOME first, then PATH."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").is_file():
        return Path(home) / "bin" / "java"
    found = shutil.which("java")
    if found is None:
        raise UnavailableError("Java was not found", "install Java 17 or newer, or set JAVA_HOME")
    return Path(found)


@cache
def memory_bytes() -> int:
    """The memory that this process may use: the machine's, or its container's where that has less."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for file in CGROUP_LIMITS:
        try:
            limits.append(int(file.read_text()))
        except (OSError, ValueError):
            # Not in a container, or one without a limit, which is the word "max".
            continue
    return min(limits)


class StopRequest:
    """Whether this process was asked to stop, and for how long it has known."""

    def __init__(self) -> None:
        self._since_s: float | None = None

    def __call__(self) -> bool:
        return self._since_s is not None

    def come(self) -> None:
        """Note that the request has come."""
        self._since_s = monotonic_s()

    def is_older_than(self, seconds: float) -> bool:
        """Whether the request came so long ago that nothing may be waited for any more."""
        return self._since_s is not None and monotonic_s() - self._since_s >= seconds


@contextmanager
def listening_for_stop() -> Iterator[StopRequest]:
    """Take SIGTERM and SIGINT as requests to stop in order; yields whether one has come. A second one acts as usual.

    Only a process's main thread receives signals; in any other the request never comes.
    """
    request = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield request
        return
    former: dict[int, Any] = {number: signal.getsignal(number) or signal.SIG_DFL for number in SIGNALS}

    def ask(number: int, frame: FrameType | None) -> None:
        request.come()
        signal.signal(number, former[number])

    for number in SIGNALS:
        signal.signal(number, ask)
    try:
        yield request
    finally:
        for number in SIGNALS:
            signal.signal(number, former[number])
