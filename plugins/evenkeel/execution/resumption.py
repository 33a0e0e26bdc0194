"""Going on where the journal ends: what an earlier run of the plan has done is taken over, never repeated."""

from __future__ import annotations

from evenkeel.execution.account import Account, Conclusion
from evenkeel.execution.assignment import Assignment
from evenkeel.execution.flights import Flights, find_ends
from evenkeel.execution.steps import StepEnd, bundles_of
from evenkeel.execution.stop_signs import StopSigns
from evenkeel.model.errors import RefusedError, RunStoppedError
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.service_unit import ServiceUnitState


def adopt_journal(assignment: Assignment, account: Account, flights: Flights, stop_signs: StopSigns) -> None:
    """Take over what an earlier run of this plan has done, and wait for what it has left under way."""
    by_order = {step.order: step for step in assignment.steps}
    for order, entry in assignment.writer.journal(assignment.plan_id).items():
        step = by_order.get(order)
        if step is None or step.bundle != entry.bundle:
            raise RefusedError(f"the journal's entry {order} is not of this plan", "look at the plan's journal")
        _adopt(step, entry, assignment, account, flights)
    flights.look_first_at(bundle for step in flights.steps for bundle in bundles_of(step))
    while flights:
        flights.progress()
        stop_signs.require_no_signal()


def require_no_failure(account: Account) -> None:
    """A failure is not forgotten by applying the plan again."""
    failed = [result for result in account.results if result.state is StepState.FAILED]
    if failed:
        raise RunStoppedError(
            f"{len(failed)} steps of an earlier run have failed, the first on {failed[0].bundle}",
            "see where these bundles are, then plan anew",
        )


def _adopt(step: Step, entry: JournalEntry, assignment: Assignment, account: Account, flights: Flights) -> None:
    """A step that was applied, or failed, is looked at again and never repeated.

    An intent whose call may still be under way is given the call's time-out; if the bundle has not moved by then, the
    call is made again.
    """
    settings = assignment.settings
    if entry.state is StepState.INTENDED:
        flights.take_off(step, settings.admin_call_timeout_s, may_begin_again=True)
    elif entry.state is StepState.APPLIED:
        flights.take_off(step, settings.step_deadline_s)
    elif entry.state is StepState.FAILED:
        _adopt_failure(step, entry, assignment, account, flights)
    else:
        _adopt_end(step, entry, assignment, account)


def _adopt_failure(step: Step, entry: JournalEntry, assignment: Assignment, account: Account, flights: Flights) -> None:
    """A step that was given up may have settled since; while it is in flight, nothing else may begin."""
    ends, seen = find_ends(assignment.view, [step])
    end = ends.get(step.order)
    if end is not None and end.state is StepState.SETTLED:
        account.conclude([Conclusion(step, StepEnd(StepState.SETTLED, "settled after the run that gave it up"))])
    elif end is None and seen[step.bundle].state is not ServiceUnitState.OWNED:
        flights.take_off(step, assignment.settings.step_deadline_s)
    else:
        _adopt_end(step, entry, assignment, account)


def _adopt_end(step: Step, entry: JournalEntry, assignment: Assignment, account: Account) -> None:
    known = assignment.circumstances.known.get(step.order)
    if known is not None and known.state is entry.state:
        account.adopt(known)
    else:
        account.put(step, entry.state, f"by an earlier run, epoch {entry.epoch}")
