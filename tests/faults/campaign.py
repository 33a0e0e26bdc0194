"""Many runs on a few workers: each worker is a process with a ZooKeeper of its own, fed one case at a time.

campaign ──case──▶ worker (ZooKeeper, fleet of the run, proxy) ──fork──▶ writer
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
from pathlib import Path
from typing import Any

from faults.cases import Case, parse_case
from faults.run import Result, run_case, to_json
from faults.servers import Layout, SharedServer
from faults.stage import Workshop
from faults.writer import TESTS
from support.waiting import scaled

RUN_TIMEOUT_S = scaled(400.0)
END_GRACE_S = scaled(30.0)
PARENT_POLL_S = 1.0
RUNS_PER_WORKER = 150
"""After so many runs a worker makes place for a fresh one: logs and fleets leave their traces in memory."""


def run_campaign(cases: Sequence[Case], workers: int, on_result: Callable[[Result], None]) -> list[Result]:
    """Make all runs; those that need an ensemble, or a configuration store of its own, have a worker of their own."""
    queues: dict[Layout, queue.SimpleQueue[Case]] = {layout: queue.SimpleQueue() for layout in Layout}
    for case in cases:
        queues[_layout_of(case)].put(case)
    results: list[Result] = []
    lock = threading.Lock()

    def take(result: Result) -> None:
        with lock:
            results.append(result)
            on_result(result)

    feeders = [
        # Daemons, so that Ctrl-C ends the campaign: workers end themselves once this process is gone.
        threading.Thread(target=_feed, args=(waiting, layout, take), daemon=True)
        for layout, waiting in queues.items()
        for _ in range(min(workers if layout is Layout.ONE else 1, waiting.qsize()))
    ]
    for feeder in feeders:
        feeder.start()
    for feeder in feeders:
        feeder.join()
    return results


def _layout_of(case: Case) -> Layout:
    if case.kind.needs_ensemble:
        return Layout.ENSEMBLE
    return Layout.TWO_STORES if case.has_own_store else Layout.ONE


def _feed(cases: queue.SimpleQueue[Case], layout: Layout, take: Callable[[Result], None]) -> None:
    worker: Worker | None = None
    try:
        while True:
            try:
                case = cases.get_nowait()
            except queue.Empty:
                return
            if worker is not None and worker.is_worn:
                worker.end()
                worker = None
            worker = worker or Worker(layout)
            result = worker.run(case)
            if result is None:
                worker.end()
                worker = None
                result = _lost(case)
            take(result)
    finally:
        if worker is not None:
            worker.end()


class Worker:
    """A process that makes runs."""

    def __init__(self, layout: Layout, package: Path | None = None, server: SharedServer | None = None) -> None:
        """A worker with servers of its own, or with one that others use too; `package` is where Evenkeel is instead."""
        self._runs = 0
        place = "" if server is None else f", {server.hosts!r}, {str(server.folder)!r}"
        # Not by -m: every forked writer would import the worker's main module anew.
        command = [sys.executable, "-c", f"from faults.campaign import serve; serve({str(layout)!r}{place})"]
        parts = [str(package) if package else None, str(TESTS), os.environ.get("PYTHONPATH")]
        path = os.pathsep.join(filter(None, parts))
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

    def run(self, case: Case) -> Result | None:
        """The result of a run; None where the worker has died or hangs."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._runs += 1
        watchdog = threading.Timer(RUN_TIMEOUT_S, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(f"{case}\n")
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


def _lost(case: Case) -> Result:
    sentence = f"harness: the worker died or took more than {RUN_TIMEOUT_S:g} s"
    return Result(
        str(case), case.kind.name, "", case.request, "", False, "lost", 0, 0.0, None, None, violations=[sentence]
    )


def serve(layout: str, hosts: str = "", folder: str = "") -> None:
    """Make the run that each line of standard input names; print each result as one line of JSON."""
    server = SharedServer(hosts, Path(folder)) if hosts else None
    logging.disable(logging.CRITICAL)
    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    # A campaign that was ended does not read on.
    with contextlib.suppress(BrokenPipeError), ExitStack() as stack:
        workshop = Workshop.open(stack, Layout(layout), server)
        for line in sys.stdin:
            result: dict[str, Any] = to_json(run_case(parse_case(line), workshop))
            sys.stdout.write(json.dumps(result) + "\n")
            sys.stdout.flush()


def _end_with(parent: int) -> None:
    """A campaign that was killed must not leave its workers behind; their servers end with them."""
    while os.getppid() == parent:
        time.sleep(PARENT_POLL_S)
    os._exit(1)
