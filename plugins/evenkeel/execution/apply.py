"""One application of a plan, from the first look at the cluster to the way out."""

from __future__ import annotations

import logging

from evenkeel.execution.account import Account, Outcome
from evenkeel.execution.assignment import Assignment
from evenkeel.execution.flights import Flights
from evenkeel.execution.inspection import Inspection
from evenkeel.execution.resumption import adopt_journal, require_no_failure
from evenkeel.execution.safe_mode import find_missing, wait_until_calm
from evenkeel.execution.stop_signs import StopSigns
from evenkeel.execution.waves import Waves
from evenkeel.execution.way_out import leave
from evenkeel.model.errors import EvenkeelError, FencedOutError, SessionLostError
from evenkeel.model.run import RunState
from evenkeel.model.run_events import Decision

log = logging.getLogger(__name__)


class Run:
    """One application of a plan; a second one of the same plan goes on where the journal ends."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._account = Account(assignment)
        self._flights = Flights(assignment, self._account)
        self._stop_signs = StopSigns(assignment, self._flights)

    def execute(self) -> Outcome:
        """Apply the plan wave by wave; stops the line at the first failure, and always lets the fence go."""
        self._wait_in_safe_mode()
        self._require_readable()
        self._take_fence()
        state, stopped_because = RunState.STOPPED, "the writer met an error that it does not know"
        try:
            self._apply()
            state, stopped_because = RunState.DONE, ""
        except EvenkeelError as error:
            state, stopped_because = self._stop(error), str(error)
        finally:
            outcome = leave(self._assignment, self._account, state, stopped_because)
        return outcome

    def _wait_in_safe_mode(self) -> None:
        given, circumstances = self._assignment, self._assignment.circumstances
        if given.is_dry_run:
            return
        missing = find_missing(circumstances.brokers, given.view)
        if not missing and not circumstances.after_loss:
            return
        why = f"broker {missing[0]} is not registered" if missing else "ZooKeeper was away"
        log.warning("safe mode: %s", why)
        waited_s = wait_until_calm(
            circumstances.brokers,
            given.view,
            given.writer,
            given.clock,
            given.settings,
            self._stop_signs.require_no_signal,
        )
        given.decisions.tell(Decision.WAITED, f"{why}; waited {waited_s:.0f} s")

    def _require_readable(self) -> None:
        """Read every bundle of the plan once: a malformed or foreign record is refused before anything is written."""
        self._assignment.view.look([step.bundle for step in self._assignment.steps])

    def _take_fence(self) -> None:
        decisions = self._assignment.decisions
        decisions.epoch = self._assignment.writer.acquire(self._assignment.plan_id)
        decisions.tell(Decision.FENCED_IN, f"epoch {decisions.epoch}")

    def _apply(self) -> None:
        given, account, flights, stop_signs = self._assignment, self._account, self._flights, self._stop_signs
        given.decisions.warn(given.writer.open(account.standing(RunState.RUNNING)))
        inspection = Inspection(given, account, flights)
        adopt_journal(given, account, flights, stop_signs)
        Waves(given, account, flights, stop_signs, inspection).apply()
        require_no_failure(account)

    def _stop(self, error: EvenkeelError) -> RunState:
        log.warning("run of plan %s stopped: %s", self._assignment.plan_id[:12], error)
        if isinstance(error, FencedOutError):
            self._assignment.decisions.tell(Decision.FENCED_OUT, str(error))
        if isinstance(error, SessionLostError):
            self._assignment.decisions.tell(Decision.SESSION_LOST, str(error))
        for step in self._flights.steps:
            self._account.put(step, self._assignment.writer.opening_state, "under way when the run stopped")
        return RunState.LOST if isinstance(error, SessionLostError) else RunState.STOPPED
