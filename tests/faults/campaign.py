"""Many runs on a few workers: each worker is a process with a ZooKeeper of its own, fed one seed at a time.

campaign ──seed──▶ worker (ZooKeeper, fleet of the run, proxy) ──fork──▶ writer
         ◀─result─
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from faults.kinds import kind_of
from faults.run import Result, run_seed, to_json
from faults.stage import Workshop
from faults.writer import TESTS

SEED_TIMEOUT_S = 400.0
END_GRACE_S = 30.0
PARENT_POLL_S = 1.0
RUNS_PER_WORKER = 150
"""After so many runs a worker makes place for a fresh one: logs and fleets leave their traces in memory."""


def run_campaign(seeds: Sequence[int], workers: int, on_result: Callable[[Result], None]) -> list[Result]:
    """Run all seeds; those that need an ensemble have a worker of their own."""
    plain: queue.SimpleQueue[int] = queue.SimpleQueue()
    ensemble: queue.SimpleQueue[int] = queue.SimpleQueue()
    for seed in seeds:
        (ensemble if kind_of(seed).needs_ensemble else plain).put(seed)
    results: list[Result] = []
    lock = threading.Lock()

    def take(result: Result) -> None:
        with lock:
            results.append(result)
            on_result(result)

    feeders = [threading.Thread(target=_feed, args=(plain, False, take)) for _ in range(min(workers, plain.qsize()))]
    if not ensemble.empty():
        feeders.append(threading.Thread(target=_feed, args=(ensemble, True, take)))
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    return sorted(results, key=lambda result: result.seed)


def _feed(seeds: queue.SimpleQueue[int], is_ensemble: bool, take: Callable[[Result], None]) -> None:
    worker: _Worker | None = None
    try:
        while True:
            try:
                seed = seeds.get_nowait()
            except queue.Empty:
                return
            if worker is not None and worker.is_worn:
                worker.end()
                worker = None
            worker = worker or _Worker(is_ensemble)
            result = worker.run(seed)
            if result is None:
                worker.end()
                worker = None
                result = _lost(seed)
            take(result)
    finally:
        if worker is not None:
            worker.end()


class _Worker:
    """A process that makes runs."""

    def __init__(self, is_ensemble: bool) -> None:
        self._runs = 0
        # Not by -m: every forked writer would import the worker's main module anew.
        command = [sys.executable, "-c", f"from faults.campaign import serve; serve({is_ensemble})"]
        path = os.pathsep.join(filter(None, [str(TESTS), os.environ.get("PYTHONPATH")]))
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": path},
        )

    @property
    def is_worn(self) -> bool:
        return self._runs >= RUNS_PER_WORKER

    def run(self, seed: int) -> Result | None:
        """The result of a seed; None where the worker has died or hangs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._runs += 1
        watchdog = threading.Timer(SEED_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(f"{seed}\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            return None
        finally:
            watchdog.cancel()
        return Result(**json.loads(line)) if line else None

    def end(self) -> None:
        with contextlib.suppress(OSError):
            self._process.communicate(timeout=END_GRACE_S)
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


def _lost(seed: int) -> Result:
    sentence = f"harness: the worker died or took more than {SEED_TIMEOUT_S:g} s"
    return Result(seed, kind_of(seed).name, "", "", False, "lost", 0, 0.0, None, None, [sentence])


def serve(is_ensemble: bool) -> None:
    """Make a run for each seed on standard input; print each result as one line of JSON."""
    logging.disable(logging.CRITICAL)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # A campaign that was ended does not read on.
    with contextlib.suppress(BrokenPipeError), ExitStack() as stack:
        workshop = Workshop.open(stack, is_ensemble)
        for line in sys.stdin:
            result: dict[str, Any] = to_json(run_seed(int(line), workshop))
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()


def _end_with(parent: int) -> None:
    """A campaign that was killed must not leave its workers behind; their servers end with them."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)
