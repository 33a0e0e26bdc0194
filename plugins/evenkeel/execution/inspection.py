"""A look at the cluster after each wave: read what `health` judges, and stop the line unless all is well."""

from __future__ import annotations

from evenkeel.execution.account import Account
from evenkeel.execution.assignment import Assignment
from evenkeel.execution.flights import Flights
from evenkeel.execution.health import find_broker_fault, find_load_fault, find_unplanned_move, predict
from evenkeel.model.errors import RunStoppedError
from evenkeel.model.plan import Step
from evenkeel.model.run import StepState


class Inspection:
    """Knows the brokers of the run as they were when it began."""

    def __init__(self, assignment: Assignment, account: Account, flights: Flights) -> None:
        self._assignment = assignment
        self._account = account
        self._flights = flights
        named = {broker for step in assignment.steps for broker in (step.source, step.destination) if broker}
        self._incarnations = assignment.view.incarnations(named)

    def require_health(self) -> None:
        """Stop the line unless the cluster looks as it should after a wave."""
        if self._assignment.is_dry_run:
            return
        view = self._assignment.view
        touched = self._flights.settled_and_touched()
        fault = (
            find_broker_fault(self._incarnations, view.incarnations(self._incarnations))
            or find_unplanned_move(touched, view.look([step.bundle for step in touched]))
            or (None if view.leader() else "no broker leads the cluster now")
            or self._find_load_fault()
        )
        if fault is not None:
            raise RunStoppedError(fault, "see what happened there, then apply the plan again to go on, or plan anew")

    def _find_load_fault(self) -> str | None:
        circumstances = self._assignment.circumstances
        limit, read_load = self._assignment.settings.health_load_error, circumstances.read_load
        if limit is None or read_load is None:
            return None
        settled = [step for step in self._assignment.steps if self._is_settled(step)]
        predicted = predict(circumstances.balances, settled)
        return find_load_fault(circumstances.balances, predicted, read_load(), limit)

    def _is_settled(self, step: Step) -> bool:
        result = self._account.result_of(step)
        return result is not None and result.state is StepState.SETTLED
