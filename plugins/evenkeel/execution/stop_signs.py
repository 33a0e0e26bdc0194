"""What ends a run from outside: the kill switch, the end of its time, a signal; steps under way are waited for."""

from __future__ import annotations

from evenkeel.execution.assignment import Assignment
from evenkeel.execution.flights import Flights
from evenkeel.execution.preflight import require_in_time
from evenkeel.model.errors import EvenkeelError, RunStoppedError
from evenkeel.model.moments import format_time

GO_ON = "run it again to go on"


class StopSigns:
    """Asked again and again in the course of a run."""

    def __init__(self, assignment: Assignment, flights: Flights) -> None:
        self._assignment = assignment
        self._flights = flights

    def require_may_begin(self) -> None:
        """What must hold for any step to begin now; where time is over, steps under way are waited for first."""
        self._assignment.writer.await_connection()
        stopped_by = self._assignment.view.stopped_by()
        if stopped_by is not None:
            raise RunStoppedError(
                f"an operator has stopped all writing (stopped by {stopped_by})",
                "run `evenkeel resume` to let it go on, then apply the plan again",
            )
        try:
            self._require_time()
        except EvenkeelError as error:
            self._wind_down(error, self._assignment.settings.step_deadline_s)

    def require_no_signal(self) -> None:
        if self._assignment.circumstances.should_stop():
            self._wind_down(RunStoppedError("the run was told to stop", GO_ON), self._assignment.settings.stop_wait_s)

    def _require_time(self) -> None:
        now, until = self._assignment.clock.now(), self._assignment.circumstances.until
        require_in_time(self._assignment.plan, self._assignment.plan_id, now)
        if until is not None and now >= until:
            raise RunStoppedError(f"the window ended at {format_time(until)}", "apply the plan again in the next one")

    def _wind_down(self, reason: EvenkeelError, within_s: float) -> None:
        """Begin nothing more, wait for what is under way, then stop."""
        clock = self._assignment.clock
        deadline_s = clock.monotonic_s() + within_s
        while self._flights and clock.monotonic_s() < deadline_s:
            self._flights.progress()
        raise reason
