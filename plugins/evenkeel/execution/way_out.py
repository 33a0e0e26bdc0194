"""The way out of a run: Pulsar's switches put back, the plan's standing written, the fence let go.

the run holds the fence      ──▶ close, under its own epoch
the kill switch was pulled   ──▶ clear up, with a new epoch: the switch forbids steps, not clearing up
the session is lost          ──▶ unfinished: for whoever has a new session to clear up, or else the next run
"""

from __future__ import annotations

import logging
from dataclasses import replace

from evenkeel.execution.account import Account, Outcome
from evenkeel.execution.assignment import Assignment
from evenkeel.execution.decisions import DecisionLog
from evenkeel.model.errors import EvenkeelError, FencedOutError, RefusedError, SessionLostError
from evenkeel.model.run import PlanStanding, RunState
from evenkeel.model.run_events import Decision
from evenkeel.ports import StandingKeeper

log = logging.getLogger(__name__)


def leave(assignment: Assignment, account: Account, state: RunState, detail: str) -> Outcome:
    """Put back what was changed for the run's time, in every way out that the session allows.

    A run whose steps are all done, but whose way out is not, is not done.
    """
    unfinished = account.standing(state, detail)
    try:
        if state is not RunState.LOST:
            _close(assignment, unfinished)
            return Outcome(state, account.results, detail or None)
    except EvenkeelError as error:
        log.warning("the way out is not finished: %s", error)
        if state is RunState.DONE:
            state = RunState.LOST if isinstance(error, SessionLostError) else RunState.STOPPED
            detail = f"every step is done, but the run could not end in order: {error}"
            unfinished = account.standing(state, detail)
    finally:
        assignment.writer.release()
    return Outcome(state, account.results, detail, unfinished)


def clear_up(keeper: StandingKeeper, ended: PlanStanding, decisions: DecisionLog) -> None:
    """Do under a new epoch what a run could not do under its own: restore, say how it ended, let go. Begins no step."""
    if not _is_left(ended, keeper):
        return
    try:
        decisions.epoch = keeper.acquire(ended.plan_id)
    except RefusedError:
        if _is_left(ended, keeper):
            raise
        return
    try:
        decisions.tell(Decision.FENCED_IN, f"epoch {decisions.epoch}, to clear up")
        # Whoever held the fence until this moment may have cleared up.
        if _is_left(ended, keeper):
            decisions.warn(keeper.open(replace(ended, epoch=decisions.epoch)))
    finally:
        keeper.release()


def _close(assignment: Assignment, standing: PlanStanding) -> None:
    writer, decisions = assignment.writer, assignment.decisions
    try:
        decisions.warn(writer.close(standing))
    except FencedOutError:
        if assignment.view.stopped_by() is None:
            raise
        writer.release()
        clear_up(writer, standing, decisions)


def _is_left(ended: PlanStanding, keeper: StandingKeeper) -> bool:
    """Whether there is something to clear up; a writer that came later has done it, and the standing is its own."""
    standings = keeper.standings()
    if any(standing.epoch > ended.epoch for standing in standings.values()):
        return False
    own = standings.get(ended.plan_id)
    is_told_to_run = own is not None and own.state is RunState.RUNNING
    return is_told_to_run or any(standing.switches is not None for standing in standings.values())
