"""Background work, now or after a delay, on a small thread pool that stops as a whole."""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.model.errors import EvenkeelError

WORKERS = 8
IDLE_WAIT_S = 60.0

_log = logging.getLogger(__name__)


class Timers:
    """Runs functions at once or after a delay; a failure is logged and affects nothing else."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WORKERS, thread_name_prefix="fleet-worker")
        self._wake = threading.Condition()
        self._due: list[tuple[float, int, Callable[..., None], tuple[Any, ...]]] = []
        self._order = itertools.count()
        self._is_stopped = False
        self._thread = threading.Thread(target=self._run, name="fleet-timers", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Drop what is not yet due and wait for running functions."""
        with self._wake:
            self._is_stopped = True
            self._due.clear()
            self._wake.notify()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)

    def submit(self, function: Callable[..., None], *arguments: Any) -> None:
        """Run a function as soon as a worker is free."""
        with self._wake:
            if not self._is_stopped:
                self._pool.submit(self._call, function, arguments)

    def after(self, delay_s: float, function: Callable[..., None], *arguments: Any) -> None:
        """Run a function after a delay."""
        if delay_s <= 0:
            self.submit(function, *arguments)
            return
        with self._wake:
            if not self._is_stopped:
                heapq.heappush(self._due, (time.monotonic() + delay_s, next(self._order), function, arguments))
                self._wake.notify()

    def every(self, interval_s: float, function: Callable[[], None]) -> None:
        """Run a function repeatedly, an interval after each run ends."""

        def run_and_repeat() -> None:
            try:
                function()
            finally:
                self.after(interval_s, run_and_repeat)

        self.after(interval_s, run_and_repeat)

    def _run(self) -> None:
        while True:
            with self._wake:
                if self._is_stopped:
                    return
                wait_s = self._due[0][0] - time.monotonic() if self._due else IDLE_WAIT_S
                if wait_s > 0:
                    self._wake.wait(wait_s)
                    continue
                _, _, function, arguments = heapq.heappop(self._due)
            self.submit(function, *arguments)

    def _call(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        try:
            function(*arguments)
        except (KazooException, KazooTimeoutError, EvenkeelError) as error:
            # A broker that died meanwhile cannot write; the next event or monitor pass handles the rest.
            level = logging.DEBUG if self._is_stopped else logging.WARNING
            _log.log(level, "%s did not finish: %s", function.__qualname__, error or type(error).__name__)
        except Exception:
            _log.exception("%s failed", function.__qualname__)
