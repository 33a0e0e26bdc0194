"""Applying a plan: through as many sessions as it takes, wave by wave, step by step.

apply_through_sessions   a lost session ends the run, or is followed by a new one, as the settings say
run_in_session           one session: fence, journal, waves, and the end of the run whatever happens
Run.apply_wave           a wave begins with proofs, settles, and must leave a healthy cluster before the next begins
"""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from evenkeel.execution.context import RunContext, RunOptions, RunTask
from evenkeel.execution.dry_run import DryWriter
from evenkeel.execution.health import HealthCheck
from evenkeel.execution.in_flight_steps import InFlightSteps
from evenkeel.execution.results import Conclusion, Outcome, RunResults, tell_skipped
from evenkeel.execution.resumption import adopt_journal, find_finished, require_no_failure
from evenkeel.execution.steps import StepEnd, build_record, children_of, find_obstacle, namespace_of
from evenkeel.execution.stop_conditions import StopConditions, find_missing, try_until_back
from evenkeel.execution.teardown import end_run, teardown_in_new_session
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import (
    EvenkeelError,
    FencedOutError,
    InputError,
    NotDoneError,
    RefusedError,
    SessionLostError,
    UnavailableError,
    is_of_one_step,
)
from evenkeel.model.observation import StepStart
from evenkeel.model.plan import Step
from evenkeel.model.run import RunState, StepState
from evenkeel.model.run_events import Decision
from evenkeel.ports import GuardedWriter

MOST_TRIES = 3
log = logging.getLogger(__name__)


def apply_through_sessions(task: RunTask, options: RunOptions) -> Outcome:
    """Apply a plan, and tear down with a fresh session where its own session could not do that."""
    outcome = run_in_session(task, options)
    is_reconnecting = task.settings.session_expired_policy == "reconnect"
    for _ in range(task.settings.session_expired_retries if is_reconnecting else 0):
        if outcome.state is not RunState.LOST or options.should_stop():
            break
        known = {result.order: result for result in outcome.results}
        again = partial(run_in_session, task, replace(options, after_loss=True, known=known))
        try:
            # While ZooKeeper is away nobody answers, and right after it no broker is registered yet.
            outcome = try_until_back(task, again, (UnavailableError, InputError), options.should_stop)
        except EvenkeelError as error:
            # What was done under the earlier sessions is reported all the same.
            outcome = replace(outcome, state=RunState.STOPPED, stopped_because=str(error))
    if outcome.unfinished is not None and not task.is_dry_run:
        ended = replace(outcome.unfinished, state=outcome.state, detail=outcome.stopped_because or "")
        teardown_in_new_session(task, ended, options.should_stop)
    return outcome


def run_in_session(task: RunTask, options: RunOptions) -> Outcome:
    """Apply a plan within one session; a second run of the same plan goes on where the journal ends.

    Stops at the first failure, and always releases the fence.
    """
    with task.cluster.connect() as (view, writer):
        finished = find_finished(task, writer)
        if finished is not None:
            return finished
        writer.rehearse(task.steps)
        after_loss = options.after_loss or _was_lost(writer)
        used = DryWriter(task.clock) if task.is_dry_run else writer
        run = Run(RunContext(task, view, used, replace(options, after_loss=after_loss)))
        run.take_fence()
        state, stopped_because = RunState.STOPPED, "the writer met an error that it does not know"
        try:
            for wave in run.open_waves():
                run.apply_wave(wave)
            require_no_failure(run.results)
            state, stopped_because = RunState.DONE, tell_skipped(run.results.results, len(task.steps))
        except EvenkeelError as error:
            state, stopped_because = run.stop(error), str(error)
        finally:
            outcome = end_run(run.context, run.results, state, stopped_because)
    return outcome


def _was_lost(writer: GuardedWriter) -> bool:
    """Whether the last run on this cluster, of whichever plan, ended by losing its session."""
    last = max(writer.statuses().values(), key=lambda status: status.epoch, default=None)
    return last is not None and last.state is RunState.LOST


class Run:
    """One application of a plan within one session."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.results = RunResults(context)
        self._in_flight = InFlightSteps(context, self.results)
        self._stop_conditions = StopConditions(context, self._in_flight)
        self._health: HealthCheck | None = None

    def take_fence(self) -> None:
        """Wait until it is safe to write, read what the plan is about, then take the fence."""
        context = self.context
        if not context.task.is_dry_run:
            self._wait_in_safe_mode()
        # A malformed or foreign record is refused before anything is written.
        context.view.look([step.bundle for step in context.steps])
        # Read last, so that nothing is written for a plan that was taken back a moment ago.
        self._stop_conditions.require_not_revoked()
        context.decisions.epoch = context.writer.acquire(context.plan_id)
        context.decisions.tell(Decision.FENCED_IN, f"epoch {context.decisions.epoch}")

    def open_waves(self) -> Iterator[Sequence[Step]]:
        """Take over what earlier runs of the plan did, then yield each wave's steps that have no result yet."""
        context, results = self.context, self.results
        context.decisions.warn(context.view.warnings())
        context.decisions.warn(context.writer.open(results.status(RunState.RUNNING)))
        self._health = HealthCheck(context, results, self._in_flight)
        adopt_journal(context, results, self._in_flight, self._stop_conditions)
        waves = [list(wave) for _, wave in groupby(context.steps, key=lambda step: step.wave)]
        left = [[step for step in wave if results.result_of(step) is None] for wave in waves]
        if any(left):
            # Applying the plan again does not cure what was wrong with the cluster when an earlier run stopped.
            self._health.require_health()
        yield from filter(None, left)

    def apply_wave(self, wave: Sequence[Step]) -> None:
        """Begin a wave's steps, a few at a time, wait until all have settled, and check the cluster's health."""
        context, in_flight = self.context, self._in_flight
        self._require_same_policies()
        self._stop_conditions.require_may_begin()
        if context.writer.pause_native_balancer():
            context.decisions.tell(Decision.PAUSED)
        waiting, tries = deque(wave), Counter[int]()
        while waiting or in_flight:
            batch = self._take_next(waiting)
            if batch:
                self._stop_conditions.require_may_begin()
                starts, skipped = self._prove(batch)
                for start in starts:
                    # In flight before the call: whatever becomes of the call, the run then accounts for the step.
                    in_flight.add(start.step, context.settings.step_deadline_s)
                refusals = context.writer.begin(starts) if starts else {}
                lost = self._note_begun(starts, refusals, skipped)
                tries.update(step.order for step in lost)
                _require_few_tries(tries)
                waiting.extendleft(reversed(lost))
            self._stop_conditions.require_no_signal()
            in_flight.progress()
        if self._health is not None:
            self._health.require_health()
        context.decisions.tell(Decision.WAVE_SETTLED, f"wave {wave[0].wave}")

    def stop(self, error: EvenkeelError) -> RunState:
        """Record why the run stops, and which steps it leaves in flight; returns the state it ends in."""
        context = self.context
        log.warning("run of plan %s stopped: %s", short_id(context.plan_id), error)
        if isinstance(error, FencedOutError):
            context.decisions.tell(Decision.FENCED_OUT, str(error))
        if isinstance(error, SessionLostError):
            context.decisions.tell(Decision.SESSION_LOST, str(error))
        for step in self._in_flight.steps:
            self.results.put(step, context.writer.opening_state, "in flight when the run stopped")
        return RunState.LOST if isinstance(error, SessionLostError) else RunState.STOPPED

    def _wait_in_safe_mode(self) -> None:
        context, options = self.context, self.context.options
        missing = find_missing(options.brokers, context.view)
        if not missing and not options.after_loss:
            return
        why = f"broker {missing[0]} is not registered" if missing else "ZooKeeper was away"
        log.warning("safe mode: %s", why)
        waited_s = self._stop_conditions.wait_until_calm()
        context.decisions.tell(Decision.WAITED, f"{why}; waited {waited_s:.0f} s")

    def _take_next(self, waiting: deque[Step]) -> list[Step]:
        """Take as many steps from those that wait as may begin now; one that collides with another waits on."""
        keys_of, in_flight = self.context.writer.collision_keys, self._in_flight
        free = self.context.settings.in_flight_steps - len(in_flight)
        taken = {key for step in in_flight.steps for key in keys_of(step)}
        batch: list[Step] = []
        held_back: list[Step] = []
        while waiting and len(batch) < free:
            step = waiting.popleft()
            keys = keys_of(step)
            (batch if taken.isdisjoint(keys) else held_back).append(step)
            taken |= keys
        waiting.extendleft(reversed(held_back))
        return batch

    def _require_same_policies(self) -> None:
        changed = self.context.view.changed_policies(self.context.plan.policy_versions)
        if changed:
            raise RefusedError(f"the policy {changed[0]} has changed since the snapshot", "plan again")
        moved = {namespace_of(step) for step in self.context.steps}
        regrouped = self.context.view.changed_groups(self.context.plan.anti_affinity, moved)
        if regrouped:
            raise RefusedError(
                f"the anti-affinity group of namespace {regrouped[0]} has changed since the snapshot", "plan again"
            )

    def _prove(self, batch: Sequence[Step]) -> tuple[list[StepStart], list[Conclusion]]:
        """What to write for each step that may begin, and why the others may not."""
        context, view = self.context, self.context.view
        seen = view.look([step.bundle for step in batch])
        incarnations = view.incarnations({b for step in batch for b in (step.source, step.destination) if b})
        boundaries = view.boundaries({namespace_of(step) for step in batch})
        draining = view.draining()
        now_ms = context.now_ms()
        starts, skipped = [], []
        for step in batch:
            found = seen[step.bundle]
            obstacle = find_obstacle(step, found, incarnations, boundaries.get(namespace_of(step), ()), draining)
            if obstacle is None:
                entry = self.results.entry(step, context.writer.opening_state)
                starts.append(StepStart(step, found, build_record(step, found, now_ms), entry))
            else:
                skipped.append(Conclusion(step, StepEnd(StepState.SKIPPED, obstacle), record=found.record))
        return starts, skipped

    def _note_begun(
        self, starts: Sequence[StepStart], refusals: Mapping[int, EvenkeelError], skipped: list[Conclusion]
    ) -> list[Step]:
        """Record which steps have begun and which are skipped; a refusal that concerns the whole run is raised.

        Returns the steps that got lost on their way: time has passed, so they have to be proved again.
        """
        for start in starts:
            refusal = refusals.get(start.step.order)
            if refusal is not None:
                self._in_flight.remove(start.step)
                if isinstance(refusal, RefusedError) and is_of_one_step(refusal):
                    skipped.append(Conclusion(start.step, StepEnd(StepState.SKIPPED, refusal.cause)))
            elif self.context.task.is_dry_run:
                self._in_flight.remove(start.step)
                self.results.put(start.step, StepState.PROVED, "every check passed")
            else:
                self.results.tell_begun(start)
                self._in_flight.look_first_at(children_of(start.step))
        for refusal in refusals.values():
            if not is_of_one_step(refusal):
                raise refusal
        self.results.conclude(skipped)
        return [start.step for start in starts if isinstance(refusals.get(start.step.order), NotDoneError)]


def _require_few_tries(tries: Counter[int]) -> None:
    for order, count in tries.items():
        if count >= MOST_TRIES:
            raise UnavailableError(
                f"step {order} got lost {count} times on its way to ZooKeeper",
                "check that the connection to ZooKeeper is stable, then apply the plan again to go on",
            )
