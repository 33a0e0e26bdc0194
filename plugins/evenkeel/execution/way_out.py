"""The way out of a run: Pulsar's switches put back, the plan's standing written, the fence let go.

the run holds the fence      ──▶ close, under its own epoch
the kill switch was pulled   ──▶ clear up, with a new epoch: the switch forbids steps, not clearing up
the standing was deleted     ──▶ close, under a new epoch: the writer still knows how it found the switches
the session is lost          ──▶ unfinished: for whoever has a new session to clear up, or else the next run
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import replace

from evenkeel.execution.account import Account, Outcome
from evenkeel.execution.assignment import Assignment
from evenkeel.execution.decisions import DecisionLog
from evenkeel.model.errors import EvenkeelError, FencedOutError, RefusedError, SessionLostError
from evenkeel.model.run import PlanStanding, RunState
from evenkeel.model.run_events import Decision
from evenkeel.ports import GuardedWriter, StandingKeeper

FORGOTTEN = (
    "Pulsar's balancer may still be off, and no later run will put it back, for the run's standing was deleted: see "
    "loadBalancerSheddingEnabled and loadBalancerAutoBundleSplitEnabled in `pulsar-admin brokers "
    "get-all-dynamic-config`, and set them with `update-dynamic-config` or drop them with `delete-dynamic-config`"
)
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
        if _has_left_paused(decisions) and _is_deleted(ended, keeper):
            decisions.warn([FORGOTTEN])
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
            is_off = _has_switches(keeper.standings().values())
            decisions.warn(keeper.open(replace(ended, epoch=decisions.epoch)))
            if is_off:
                decisions.tell(Decision.RESTORED)
    finally:
        keeper.release()


def _close(assignment: Assignment, standing: PlanStanding) -> None:
    writer, decisions = assignment.writer, assignment.decisions
    is_paused = _has_paused_in_this_session(decisions)
    try:
        decisions.warn(writer.close(standing))
    except RefusedError as error:
        if is_paused and standing.plan_id not in writer.standings():
            _close_anew(writer, standing, decisions)
        elif isinstance(error, FencedOutError) and assignment.view.stopped_by() is not None:
            writer.release()
            clear_up(writer, standing, decisions)
            return
        else:
            raise
    if is_paused:
        decisions.tell(Decision.RESTORED)


def _close_anew(writer: GuardedWriter, standing: PlanStanding, decisions: DecisionLog) -> None:
    """Close under a new epoch a run whose standing somebody deleted; nobody else knows what it has to put back."""
    writer.release()
    epoch = writer.acquire(standing.plan_id)
    # Where the fence was deleted too, epochs begin at one again, and a lower one would be the name of an earlier run.
    decisions.epoch = max(decisions.epoch, epoch)
    decisions.tell(Decision.FENCED_IN, f"epoch {epoch}, to clear up")
    decisions.warn(writer.close(replace(standing, epoch=epoch)))
    decisions.warn(
        [
            f"the standing of plan {standing.plan_id[:12]} was deleted while its run was under way, "
            "and its journal may be: Pulsar's switches are put back; see who did that, then plan again"
        ]
    )


def _has_paused_in_this_session(decisions: DecisionLog) -> bool:
    """Whether the writer that took the fence last has changed Pulsar's switches."""
    return _last_of(decisions, Decision.PAUSED, Decision.FENCED_IN) is Decision.PAUSED


def _has_left_paused(decisions: DecisionLog) -> bool:
    """Whether the run has changed Pulsar's switches, in whichever session, and not put them back."""
    return _last_of(decisions, Decision.PAUSED, Decision.RESTORED) is Decision.PAUSED


def _last_of(decisions: DecisionLog, *wanted: Decision) -> Decision | None:
    return next((event.decision for event in reversed(decisions.events) if event.decision in wanted), None)


def _is_deleted(ended: PlanStanding, keeper: StandingKeeper) -> bool:
    """Whether a standing that the run has written is gone; epochs that count from one again betray that as well."""
    own = keeper.standings().get(ended.plan_id)
    return own is None or own.epoch < ended.epoch


def _is_left(ended: PlanStanding, keeper: StandingKeeper) -> bool:
    """Whether there is something to clear up; a writer that came later has done it, and the standing is its own."""
    standings = keeper.standings()
    if any(standing.epoch > ended.epoch for standing in standings.values()):
        return False
    own = standings.get(ended.plan_id)
    is_told_to_run = own is not None and own.state is RunState.RUNNING
    return is_told_to_run or _has_switches(standings.values())


def _has_switches(standings: Iterable[PlanStanding]) -> bool:
    return any(standing.switches is not None for standing in standings)
