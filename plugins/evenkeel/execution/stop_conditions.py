"""What makes a run wait, and what stops it from outside.

It waits in safe mode after ZooKeeper was away, and for ZooKeeper to come back after a lost session. It stops for the
kill switch, at the end of its time, and on a signal; steps in flight are waited for.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar

from evenkeel.execution.context import RunContext, RunTask
from evenkeel.execution.in_flight_steps import InFlightSteps
from evenkeel.execution.preflight import require_in_time
from evenkeel.model.errors import EvenkeelError, RunStoppedError
from evenkeel.model.timestamps import format_time
from evenkeel.ports import ClusterView

CALM_POLL_S = 0.25
RECONNECT_POLL_S = 1.0
T = TypeVar("T")


class StopConditions:
    """Checked again and again in the course of a run."""

    def __init__(self, context: RunContext, in_flight: InFlightSteps) -> None:
        self._context = context
        self._in_flight = in_flight

    def require_may_begin(self) -> None:
        """Raise unless a step may begin now; when the time is over, steps in flight are waited for first."""
        # Also before the first step: a run that was told to stop while it connected must not pause Pulsar's balancer.
        self.require_no_signal()
        self._context.writer.await_connection()
        self._context.writer.require_steady_clock()
        self._context.writer.require_no_migration()
        self.require_not_revoked()
        stopped_by = self._context.view.stopped_by()
        if stopped_by is not None:
            raise RunStoppedError(
                f"an operator has stopped all writing (stopped by {stopped_by})",
                "run `evenkeel resume` to allow it again, then apply the plan again",
            )
        try:
            self._require_time()
        except EvenkeelError as error:
            self._wind_down(error, self._context.settings.step_deadline_s)

    def require_not_revoked(self) -> None:
        """Raise if somebody has taken the plan back."""
        revoked = self._context.options.revoked_by()
        if revoked is not None:
            raise RunStoppedError(f"the plan was {revoked}", "take a new snapshot and plan again")

    def require_no_signal(self) -> None:
        """Raise if a signal has asked the run to stop; steps in flight are waited for first."""
        if self._context.options.should_stop():
            reason = RunStoppedError("the run was told to stop", "run the same command again to go on")
            self._wind_down(reason, self._context.settings.stop_wait_s)

    def wait_until_calm(self) -> float:
        """Wait in safe mode and return for how long; brokers that stay away until the deadline stop the run."""
        context, settings = self._context, self._context.settings
        began_s = context.clock.monotonic_s()
        while True:
            self.require_no_signal()
            context.writer.await_connection()
            missing = find_missing(context.options.brokers, context.view)
            waited_s = context.clock.monotonic_s() - began_s
            if not missing and context.writer.connected_for_s() >= settings.safe_mode_wait_s:
                return waited_s
            if waited_s > settings.safe_mode_deadline_s:
                what = f"broker {missing[0]} has not registered again" if missing else "ZooKeeper has not been stable"
                raise RunStoppedError(
                    f"{what} within {settings.safe_mode_deadline_s:.0f} s",
                    "bring it back and apply the plan again to go on, or take a new snapshot and plan again",
                )
            context.clock.sleep(CALM_POLL_S)

    def _require_time(self) -> None:
        # The cluster's time, not this machine's: setting a clock must neither open nor close a window.
        now, until = self._context.writer.now(), self._context.options.until
        require_in_time(self._context.plan, self._context.plan_id, now)
        if until is not None and now >= until:
            raise RunStoppedError(f"the window ended at {format_time(until)}", "apply the plan again in the next one")

    def _wind_down(self, reason: EvenkeelError, within_s: float) -> None:
        """Begin nothing more, wait for what is in flight, then stop."""
        clock = self._context.clock
        deadline_s = clock.monotonic_s() + within_s
        while self._in_flight and clock.monotonic_s() < deadline_s:
            self._in_flight.progress()
        raise reason


def find_missing(brokers: Collection[str], view: ClusterView) -> list[str]:
    """Brokers that the plan counts on and that are not registered now."""
    return sorted(set(brokers) - set(view.incarnations(brokers)))


def try_until_back(
    task: RunTask,
    attempt: Callable[[], T],
    passing: tuple[type[EvenkeelError], ...],
    should_stop: Callable[[], bool],
) -> T:
    """Try at least once, and until ZooKeeper is back, but not past safe mode's deadline, nor past a request to stop."""
    deadline_s = task.clock.monotonic_s() + task.settings.safe_mode_deadline_s
    while True:
        try:
            return attempt()
        except passing:
            if task.clock.monotonic_s() > deadline_s or should_stop():
                raise
        task.clock.sleep(RECONNECT_POLL_S)
