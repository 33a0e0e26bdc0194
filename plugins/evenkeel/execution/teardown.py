"""The end of a run: Pulsar's switches are restored, the plan's status is written, the fence is released.

the run holds the fence      ──▶ close, under its own epoch
the kill switch was pulled   ──▶ tear down under a new epoch: the switch forbids steps, not teardown
the status was deleted       ──▶ close under a new epoch: the writer still knows the switches' former values
the session is lost          ──▶ unfinished: torn down in a new session, or else by the next run
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import replace

from evenkeel.execution.context import RunContext, RunTask
from evenkeel.execution.decisions import DecisionLog
from evenkeel.execution.results import Outcome, RunResults
from evenkeel.execution.stop_conditions import try_until_back
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import (
    EvenkeelError,
    FencedOutError,
    RefusedError,
    SessionLostError,
    UnavailableError,
    UnconfirmedError,
)
from evenkeel.model.run import PlanStatus, RunState
from evenkeel.model.run_events import Decision
from evenkeel.ports import GuardedWriter, PlanStatusKeeper

FORGOTTEN = (
    "Pulsar's balancer may still be off, and no later run will restore it, because the run's status was deleted: check "
    "loadBalancerSheddingEnabled and loadBalancerAutoBundleSplitEnabled in `pulsar-admin brokers "
    "get-all-dynamic-config`, and set them with `update-dynamic-config` or remove them with `delete-dynamic-config`"
)
log = logging.getLogger(__name__)


def end_run(context: RunContext, results: RunResults, state: RunState, detail: str) -> Outcome:
    """Restore what was changed for the duration of the run, as far as the session allows, and release the fence.

    A run whose steps are all done, but whose teardown is not, is not done.
    """
    unfinished = results.status(state, detail)
    try:
        if state is not RunState.LOST:
            _close(context, unfinished)
            return Outcome(state, results.results, detail or None)
    except EvenkeelError as error:
        log.warning("the run's teardown is not finished: %s", error)
        if state is RunState.DONE:
            state = RunState.LOST if isinstance(error, SessionLostError) else RunState.STOPPED
            detail = f"every step is done, but the run could not be closed: {error}"
            unfinished = results.status(state, detail)
    finally:
        context.writer.release()
    return Outcome(state, results.results, detail, unfinished)


def teardown(keeper: PlanStatusKeeper, ended: PlanStatus, decisions: DecisionLog) -> None:
    """Do under a new epoch what a run could not do under its own: restore, record how it ended, release."""
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
        decisions.tell(Decision.FENCED_IN, f"epoch {decisions.epoch}, for teardown")
        # Whoever held the fence until now may have torn down already.
        if _is_left(ended, keeper):
            is_off = _has_switches(keeper.statuses().values())
            decisions.warn(keeper.open(replace(ended, epoch=decisions.epoch)))
            if is_off:
                decisions.tell(Decision.RESTORED)
    finally:
        keeper.release()


def teardown_in_new_session(task: RunTask, ended: PlanStatus, should_stop: Callable[[], bool]) -> None:
    """Tear down after a run once ZooKeeper is back; if that fails, the next run of any plan does it."""
    log.warning("tearing down after the run, for at most %.0f s", task.settings.safe_mode_deadline_s)

    def attempt() -> None:
        with task.cluster.connect_keeper() as keeper:
            teardown(keeper, ended, task.decisions)

    passing = (UnavailableError, SessionLostError, UnconfirmedError, FencedOutError)
    try:
        try_until_back(task, attempt, passing, should_stop)
    except EvenkeelError as error:
        task.decisions.warn(
            [f"Pulsar's switches may still be off; the next run of any plan will restore them ({error})"]
        )


def _close(context: RunContext, status: PlanStatus) -> None:
    writer, decisions = context.writer, context.decisions
    is_paused = _has_paused_in_this_session(decisions)
    try:
        decisions.warn(writer.close(status))
    except RefusedError as error:
        if is_paused and status.plan_id not in writer.statuses():
            _close_under_new_epoch(writer, status, decisions)
        elif isinstance(error, FencedOutError) and context.view.stopped_by() is not None:
            writer.release()
            teardown(writer, status, decisions)
            return
        else:
            raise
    if is_paused:
        decisions.tell(Decision.RESTORED)


def _close_under_new_epoch(writer: GuardedWriter, status: PlanStatus, decisions: DecisionLog) -> None:
    """Close under a new epoch a run whose status somebody deleted; only this writer knows what to restore."""
    writer.release()
    epoch = writer.acquire(status.plan_id)
    # Where the fence was deleted too, epochs start at one again, and a lower one would name an earlier run.
    decisions.epoch = max(decisions.epoch, epoch)
    decisions.tell(Decision.FENCED_IN, f"epoch {epoch}, for teardown")
    decisions.warn(writer.close(replace(status, epoch=epoch)))
    decisions.warn(
        [
            f"the status of plan {short_id(status.plan_id)} was deleted during its run, and its journal may be too: "
            "Pulsar's switches are restored; find out who deleted it, then plan again"
        ]
    )


def _has_paused_in_this_session(decisions: DecisionLog) -> bool:
    """Whether the writer that took the fence last has changed Pulsar's switches."""
    return _last_of(decisions, Decision.PAUSED, Decision.FENCED_IN) is Decision.PAUSED


def _has_left_paused(decisions: DecisionLog) -> bool:
    """Whether the run has changed Pulsar's switches, in whichever session, and not restored them."""
    return _last_of(decisions, Decision.PAUSED, Decision.RESTORED) is Decision.PAUSED


def _last_of(decisions: DecisionLog, *wanted: Decision) -> Decision | None:
    return next((event.decision for event in reversed(decisions.events) if event.decision in wanted), None)


def _is_deleted(ended: PlanStatus, keeper: PlanStatusKeeper) -> bool:
    """Whether the status that the run has written is gone; epochs that restart at one show that as well."""
    own = keeper.statuses().get(ended.plan_id)
    return own is None or own.epoch < ended.epoch


def _is_left(ended: PlanStatus, keeper: PlanStatusKeeper) -> bool:
    """Whether there is something to tear down; a writer that came later has done it, and the status is its own."""
    statuses = keeper.statuses()
    if any(status.epoch > ended.epoch for status in statuses.values()):
        return False
    own = statuses.get(ended.plan_id)
    is_marked_running = own is not None and own.state is RunState.RUNNING
    return is_marked_running or _has_switches(statuses.values())


def _has_switches(statuses: Iterable[PlanStatus]) -> bool:
    return any(status.switches is not None for status in statuses)
