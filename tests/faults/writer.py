"""The writer as a process of its own, forked from a server that has everything imported, so that it starts at once.

It does what `evenkeel apply` does and ends with its exit code; what it has to say goes into a file.
"""

from __future__ import annotations

import datetime as datetimes
import json
import logging
import multiprocessing
import os
import signal
import sys
import time
import traceback
from dataclasses import dataclass
from multiprocessing.context import ForkServerContext, ForkServerProcess
from pathlib import Path
from typing import Any

from evenkeel.adapters.lake import Lake
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError
from evenkeel.model.run import RunState
from evenkeel.model.settings import Settings
from evenkeel.stages.apply import apply_plan

TESTS = Path(__file__).resolve().parents[1]
DONE, FAILED, CRASHED = 0, 1, 70


@dataclass(frozen=True, slots=True)
class Order:
    """What a writer is told to do."""

    lake: str
    plan_id: str
    connection: ClusterConnection
    settings: Settings
    answer: Path
    clock_skew_s: float = 0.0
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

    def __init__(self, context: ForkServerContext, order: Order) -> None:
        self._answer = order.answer
        self._process: ForkServerProcess = context.Process(target=write, args=(order,), daemon=True)
        self._process.start()

    @property
    def is_running(self) -> bool:
        return self._process.is_alive()

    def send(self, number: signal.Signals) -> None:
        if self._process.is_alive() and self._process.pid is not None:
            os.kill(self._process.pid, number)

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


def write(order: Order) -> None:
    """Apply a plan in this process and end it."""
    logging.basicConfig(filename=order.answer.with_suffix(".log"), level=logging.INFO, force=True)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if order.clock_skew_s:
        skew_clock(order.clock_skew_s)
    code, told = _apply(order)
    draft = order.answer.with_suffix(".draft")
    draft.write_text(json.dumps(told))
    draft.replace(order.answer)
    logging.shutdown()
    os._exit(code)


def _apply(order: Order) -> tuple[int, dict[str, Any]]:
    try:
        run = apply_plan(Lake(order.lake), order.plan_id, order.connection, order.settings, until=order.until)
    except EvenkeelError as error:
        return FAILED, {"state": "refused", "detail": str(error)}
    except BaseException:
        return CRASHED, {"state": "crashed", "detail": traceback.format_exc()}
    told = {"state": str(run.state), "detail": run.detail, "epoch": run.epoch}
    return (DONE if run.state is RunState.DONE else FAILED), told


def skew_clock(skew_s: float) -> None:
    """Let this process believe that it is earlier or later than it is."""
    true_time = time.time

    class SkewedType(type):
        def __instancecheck__(cls, instance: object) -> bool:
            return isinstance(instance, datetimes.datetime)

    class SkewedDatetime(datetimes.datetime, metaclass=SkewedType):
        @classmethod
        def now(cls, tz: datetimes.tzinfo | None = None) -> datetimes.datetime:  # type: ignore[override]
            return datetimes.datetime.fromtimestamp(time.time(), tz)

    time.time = lambda: true_time() + skew_s
    for name, module in list(sys.modules.items()):
        if name.startswith("evenkeel.") and getattr(module, "datetime", None) is datetimes.datetime:
            module.datetime = SkewedDatetime  # type: ignore[attr-defined]
