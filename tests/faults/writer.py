"""The writer as a process of its own, forked from a server that has everything imported, so that it starts at once.

It does what `evenkeel apply` does and ends with its exit code; what it has to say goes into a file.
"""

from __future__ import annotations

import datetime as datetimes
import json
import logging
import multiprocessing
import os
import resource
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from evenkeel.adapters.lake.store import Lake
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError
from evenkeel.model.run import RunState
from evenkeel.model.settings import Settings
from support.approvals import apply_plan

TESTS = Path(__file__).resolve().parents[1]
DONE, FAILED, CRASHED = 0, 1, 70


@dataclass(frozen=True, slots=True)
class WriterTask:
    """What a writer is told to do."""

    lake: str
    plan_id: str
    connection: ClusterConnection
    settings: Settings
    answer: Path
    clock_skew_s: float = 0.0
    """By how much the machine's clock is off from the start."""
    clock_step_s: float = 0.0
    """By how much it is set when SIGUSR1 comes."""
    until: datetimes.datetime | None = None


def open_fork_server() -> ForkServerContext:
    """The server from which writers are forked; it has one thread, so a fork is safe."""
    paths = [str(TESTS), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["faults.writer"])
    return context


class WriterProcess:
    """One writer; it can be signalled at any moment, and tells how it ended."""

    def __init__(self, context: ForkServerContext, order: WriterTask) -> None:
        self._answer = order.answer
        self._process: ForkServerProcess = context.Process(target=write, args=(order,), daemon=True)
        self._process.start()

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    def send(self, number: signal.Signals) -> None:
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, number)

    def limit_files(self, most_bytes: int, hard: int) -> None:
        """Let no file of the writer grow beyond so many bytes, as on a full disk."""
        if self._process.is_alive() and self._process.pid is not None:
            resource.prlimit(self._process.pid, resource.RLIMIT_FSIZE, (most_bytes, hard))

    def wait(self, timeout_s: float) -> int | None:
        """The exit code; None where the writer still runs after that time."""
        self._process.join(timeout_s)
        return self._process.exitcode

    @property
    def answer(self) -> dict[str, Any]:
        """What the writer said of its run; a killed one said nothing."""
        if not self._answer.exists():
            return {}
        told: dict[str, Any] = json.loads(self._answer.read_text())
        return told


def write(order: WriterTask) -> None:
    """Apply a plan in this process and end it."""
    logging.basicConfig(filename=order.answer.with_suffix(".log"), level=logging.INFO, force=True)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # A log that finds the disk full must not speak of it.
    logging.raiseExceptions = False
    if order.clock_skew_s or order.clock_step_s:
        offset = skew_clock(order.clock_skew_s)
        signal.signal(signal.SIGUSR1, lambda number, frame: offset.append(order.clock_step_s))
    code, told = _apply(order)
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    draft = order.answer.with_suffix(".draft")
    draft.write_text(json.dumps(told))
    draft.replace(order.answer)
    logging.shutdown()
    os._exit(code)


def _apply(order: WriterTask) -> tuple[int, dict[str, Any]]:
    try:
        run = apply_plan(Lake(order.lake), order.plan_id, order.connection, order.settings, until=order.until)
    except EvenkeelError as error:
        return FAILED, {"state": "refused", "detail": str(error)}
    except BaseException:
        return CRASHED, {"state": "crashed", "detail": traceback.format_exc()}
    told = {"state": str(run.state), "detail": run.detail, "epoch": run.epoch}
    return (DONE if run.state is RunState.DONE else FAILED), told


def skew_clock(skew_s: float) -> list[float]:
    """Let this process believe that it is earlier or later than it is; the list that it returns takes further steps."""
    true_time = time.time
    steps_s = [skew_s]

    class SkewedType(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, datetimes.datetime)

    class SkewedDatetime(datetimes.datetime, metaclass=SkewedType):
        @classmethod
        def now(cls, tz: datetimes.tzinfo | None = None) -> datetimes.datetime:  # type: ignore[override]
            return datetimes.datetime.fromtimestamp(time.time(), tz)

    time.time = lambda: true_time() + sum(steps_s)
    for name, module in list(sys.modules.items()):
        if name.startswith("evenkeel.") and getattr(module, "datetime", None) is datetimes.datetime:
            module.datetime = SkewedDatetime  # type: ignore[attr-defined]
    return steps_s
