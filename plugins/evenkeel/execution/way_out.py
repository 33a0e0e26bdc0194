"""The way out of a run: Pulsar's switches put back, the plan's standing written, the fence let go."""

from __future__ import annotations

from dataclasses import replace

from evenkeel.execution.account import Account, Outcome
from evenkeel.execution.assignment import Assignment
from evenkeel.model.errors import EvenkeelError, FencedOutError, SessionLostError
from evenkeel.model.run import RunState


def leave(assignment: Assignment, account: Account, state: RunState, detail: str) -> Outcome:
    """Put back what was changed for the run's time, in every way out; what fails here, the next run makes good.

    A run whose steps are all done, but whose way out is not, is not done.
    """
    try:
        if state is not RunState.LOST:
            _close(assignment, account, state, detail)
    except EvenkeelError as error:
        unfinished = f"the way out is not finished, the next run of any plan will do it: {error}"
        assignment.decisions.warn([unfinished])
        if state is RunState.DONE:
            state = RunState.LOST if isinstance(error, SessionLostError) else RunState.STOPPED
            detail = unfinished
    finally:
        assignment.writer.release()
    return Outcome(state, account.results, detail or None)


def _close(assignment: Assignment, account: Account, state: RunState, detail: str) -> None:
    writer, decisions = assignment.writer, assignment.decisions
    standing = account.standing(state, detail)
    try:
        decisions.warn(writer.close(standing))
    except FencedOutError:
        if assignment.view.stopped_by() is None:
            raise
        # The kill switch forbids steps, not clearing up: that takes an epoch of its own.
        writer.release()
        epoch = writer.acquire(assignment.plan_id)
        decisions.warn(writer.open(replace(standing, epoch=epoch)))
