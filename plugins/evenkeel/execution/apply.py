"""The wave loop: every wave begins with proofs, settles, and must leave a healthy cluster before the next begins."""

from __future__ import annotations

import logging
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby

from evenkeel.execution.decisions import DecisionLog
from evenkeel.execution.health import find_broker_fault, find_load_fault, find_unplanned_move, predict
from evenkeel.execution.preflight import require_in_time
from evenkeel.execution.safe_mode import find_missing, wait_until_calm
from evenkeel.execution.steps import (
    StepEnd,
    build_record,
    bundles_of,
    children_of,
    find_end,
    find_obstacle,
    namespace_of,
    tell_restart,
)
from evenkeel.model.errors import (
    EvenkeelError,
    FencedOutError,
    RefusedError,
    RunStoppedError,
    SessionLostError,
    is_of_one_step,
)
from evenkeel.model.moments import format_time
from evenkeel.model.observation import StepStart
from evenkeel.model.plan import BrokerBalance, Plan, Step, StepKind
from evenkeel.model.run import JournalEntry, PlanStanding, RunState, StepResult, StepState
from evenkeel.model.run_events import Decision
from evenkeel.model.service_unit import ServiceUnitRecord
from evenkeel.model.settings import Settings
from evenkeel.ports import Clock, ClusterView, GuardedWriter

LONGEST_WAIT_FOR_A_CHANGE_S = 0.5
GO_ON = "run it again to go on"
log = logging.getLogger(__name__)

LoadReader = Callable[[], Mapping[tuple[str, str], int]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: a result for each step that it came to, how it ended, and why it stopped early, if it did."""

    epoch: int
    state: RunState
    results: tuple[StepResult, ...]
    stopped_because: str | None


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a run has to reckon with besides its plan.

    `brokers` were registered when the plan was made. `after_loss` tells that ZooKeeper was away since. `known` are
    results of this very run under an earlier session.
    """

    brokers: frozenset[str] = frozenset()
    balances: Sequence[BrokerBalance] = ()
    until: datetime | None = None
    after_loss: bool = False
    known: Mapping[int, StepResult] = field(default_factory=dict)
    should_stop: Callable[[], bool] = lambda: False
    read_load: LoadReader | None = None
    on_progress: Callable[[StepResult], None] = lambda result: None


@dataclass(slots=True)
class _Flight:
    """A step under way; one whose call may be made again goes back to its wave instead of failing."""

    step: Step
    began_s: float
    deadline_s: float
    may_begin_again: bool = False


@dataclass(frozen=True, slots=True)
class _Conclusion:
    """What is to be journalled of a step."""

    step: Step
    end: StepEnd
    seconds: float | None = None
    record: ServiceUnitRecord | None = None


@dataclass(slots=True)
class Run:
    """One application of a plan; a second one of the same plan goes on where the journal ends."""

    plan: Plan
    plan_id: str
    steps: Sequence[Step]
    view: ClusterView
    writer: GuardedWriter
    clock: Clock
    settings: Settings
    decisions: DecisionLog
    circumstances: Circumstances = field(default_factory=Circumstances)
    _epoch: int = 0
    _results: dict[int, StepResult] = field(default_factory=dict)
    _flights: dict[int, _Flight] = field(default_factory=dict)
    _flight_of: dict[str, int] = field(default_factory=dict)
    _unseen: set[str] = field(default_factory=set)
    _settled: dict[str, Step] = field(default_factory=dict)
    _touched: set[str] = field(default_factory=set)
    _incarnations: Mapping[str, int] = field(default_factory=dict)

    def execute(self) -> Outcome:
        """Apply the plan wave by wave; stops the line at the first failure, and always lets the fence go."""
        self._wait_in_safe_mode()
        self._require_readable()
        self._epoch = self.decisions.epoch = self.writer.acquire(self.plan_id)
        self.decisions.tell(Decision.FENCED_IN, f"epoch {self._epoch}")
        state, stopped_because = RunState.STOPPED, "the writer met an error that it does not know"
        try:
            self._open()
            self._adopt_journal()
            for _, wave in groupby(self.steps, key=lambda step: step.wave):
                self._apply_wave([step for step in wave if step.order not in self._results])
            self._require_no_failure()
            state, stopped_because = RunState.DONE, ""
        except EvenkeelError as error:
            state, stopped_because = self._stop(error), str(error)
        finally:
            state, stopped_because = self._leave(state, stopped_because)
        results = tuple(self._results[order] for order in sorted(self._results))
        return Outcome(self._epoch, state, results, stopped_because or None)

    def _wait_in_safe_mode(self) -> None:
        if self.writer.opening_state is StepState.PROVED:
            return
        missing = find_missing(self.circumstances.brokers, self.view)
        if not missing and not self.circumstances.after_loss:
            return
        why = f"broker {missing[0]} is not registered" if missing else "ZooKeeper was away"
        log.warning("safe mode: %s", why)
        waited_s = wait_until_calm(
            self.circumstances.brokers, self.view, self.writer, self.clock, self.settings, self._require_no_signal
        )
        self.decisions.tell(Decision.WAITED, f"{why}; waited {waited_s:.0f} s")

    def _require_readable(self) -> None:
        """Read every bundle of the plan once: a malformed or foreign record is refused before anything is written."""
        self.view.look([step.bundle for step in self.steps])

    def _open(self) -> None:
        self._warn(self.writer.open(self._standing(RunState.RUNNING, "")))
        named = {broker for step in self.steps for broker in (step.source, step.destination) if broker}
        self._incarnations = self.view.incarnations(named)

    def _stop(self, error: EvenkeelError) -> RunState:
        log.warning("run of plan %s stopped: %s", self.plan_id[:12], error)
        if isinstance(error, FencedOutError):
            self.decisions.tell(Decision.FENCED_OUT, str(error))
        if isinstance(error, SessionLostError):
            self.decisions.tell(Decision.SESSION_LOST, str(error))
        for flight in self._flights.values():
            self._put(flight.step, self.writer.opening_state, "under way when the run stopped")
        return RunState.LOST if isinstance(error, SessionLostError) else RunState.STOPPED

    def _leave(self, state: RunState, detail: str) -> tuple[RunState, str]:
        """Put back what was changed for the run's time, in every way out; what fails here, the next run makes good.

        A run whose steps are all done, but whose way out is not, is not done.
        """
        try:
            if state is not RunState.LOST:
                self._close(state, detail)
        except EvenkeelError as error:
            unfinished = f"the way out is not finished, the next run of any plan will do it: {error}"
            self._warn([unfinished])
            if state is RunState.DONE:
                state = RunState.LOST if isinstance(error, SessionLostError) else RunState.STOPPED
                detail = unfinished
        finally:
            self.writer.release()
        return state, detail

    def _close(self, state: RunState, detail: str) -> None:
        try:
            self._warn(self.writer.close(self._standing(state, detail)))
        except FencedOutError:
            if self.view.stopped_by() is None:
                raise
            # The kill switch forbids steps, not clearing up: that takes an epoch of its own.
            self.writer.release()
            epoch = self.writer.acquire(self.plan_id)
            self._warn(self.writer.open(replace(self._standing(state, detail), epoch=epoch)))

    def _adopt_journal(self) -> None:
        """Take over what an earlier run of this plan has done.

        A step that was applied, or failed, is looked at again and never repeated. An intent whose call may still be
        under way is given the call's time-out; if the bundle has not moved by then, the call is made again.
        """
        by_order = {step.order: step for step in self.steps}
        for order, entry in self.writer.journal(self.plan_id).items():
            step = by_order.get(order)
            if step is None or step.bundle != entry.bundle:
                raise RefusedError(f"the journal's entry {order} is not of this plan", "look at the plan's journal")
            if entry.state is StepState.INTENDED:
                self._take_off(step, self.settings.admin_call_timeout_s, may_begin_again=True)
            elif entry.state is StepState.APPLIED:
                self._take_off(step, self.settings.step_deadline_s)
            elif entry.state is StepState.FAILED and self._has_settled(step):
                self._conclude([_Conclusion(step, StepEnd(StepState.SETTLED, "settled after the run that gave it up"))])
            elif (known := self.circumstances.known.get(order)) is not None and known.state is entry.state:
                self._results[order] = known
            else:
                self._put(step, entry.state, f"by an earlier run, epoch {entry.epoch}")
        self._unseen |= {bundle for flight in self._flights.values() for bundle in bundles_of(flight.step)}
        while self._flights:
            self._progress()
            self._require_no_signal()

    def _has_settled(self, step: Step) -> bool:
        end = find_end(step, self.view.look(bundles_of(step)), self._boundaries([step]))
        return end is not None and end.state is StepState.SETTLED

    def _require_no_failure(self) -> None:
        failed = [result for result in self._results.values() if result.state is StepState.FAILED]
        if failed:
            raise RunStoppedError(
                f"{len(failed)} steps of an earlier run have failed, the first on {failed[0].bundle}",
                "see where these bundles are, then plan anew",
            )

    def _apply_wave(self, wave: Sequence[Step]) -> None:
        """Begin a wave's steps, a few at a time, wait until all have settled, and see that the cluster is well."""
        if not wave:
            return
        self._require_same_policies()
        if self.writer.pause_native_balancer():
            self.decisions.tell(Decision.PAUSED)
        waiting = deque(wave)
        while waiting or self._flights:
            room = min(self.settings.in_flight_steps - len(self._flights), len(waiting))
            if room > 0:
                self._require_may_begin()
                self._begin([waiting.popleft() for _ in range(room)])
            self._require_no_signal()
            self._progress()
        self._require_health()
        self.decisions.tell(Decision.WAVE_SETTLED, f"wave {wave[0].wave}")

    def _require_same_policies(self) -> None:
        changed = self.view.changed_policies(self.plan.policy_versions)
        if changed:
            raise RefusedError(f"the policy {changed[0]} has changed since the snapshot", "plan again")

    def _require_may_begin(self) -> None:
        """What must hold for any step to begin now; where time is over, steps under way are waited for first."""
        self.writer.await_connection()
        stopped_by = self.view.stopped_by()
        if stopped_by is not None:
            raise RunStoppedError(
                f"an operator has stopped all writing (stopped by {stopped_by})",
                "run `evenkeel resume` to let it go on, then apply the plan again",
            )
        now, until = self.clock.now(), self.circumstances.until
        try:
            require_in_time(self.plan, self.plan_id, now)
            if until is not None and now >= until:
                raise RunStoppedError(
                    f"the window ended at {format_time(until)}", "apply the plan again in the next one"
                )
        except EvenkeelError as error:
            self._wind_down(error, self.settings.step_deadline_s)

    def _require_no_signal(self) -> None:
        if self.circumstances.should_stop():
            self._wind_down(RunStoppedError("the run was told to stop", GO_ON), self.settings.stop_wait_s)

    def _wind_down(self, reason: EvenkeelError, within_s: float) -> None:
        """Begin nothing more, wait for what is under way, then stop."""
        deadline_s = self.clock.monotonic_s() + within_s
        while self._flights and self.clock.monotonic_s() < deadline_s:
            self._progress()
        raise reason

    def _begin(self, batch: Sequence[Step]) -> None:
        """Begin the steps of a batch for which every proof holds, all at once; journal why the others do not."""
        views = self.view.look([step.bundle for step in batch])
        incarnations = self.view.incarnations({b for step in batch for b in (step.source, step.destination) if b})
        boundaries = self.view.boundaries({namespace_of(step) for step in batch if step.kind == StepKind.SPLIT})
        now_ms = self._now_ms()
        starts: list[StepStart] = []
        skipped: list[_Conclusion] = []
        for step in batch:
            view = views[step.bundle]
            obstacle = find_obstacle(step, view, incarnations, boundaries.get(namespace_of(step), ()))
            if obstacle is None:
                entry = self._entry(step, self.writer.opening_state, "")
                starts.append(StepStart(step, view, build_record(step, view, now_ms), entry))
            else:
                skipped.append(_Conclusion(step, StepEnd(StepState.SKIPPED, obstacle), record=view.record))
        for start in starts:
            # In the air before the call: whatever becomes of it, the run then tells of this step.
            self._take_off(start.step, self.settings.step_deadline_s)
        refusals = self.writer.begin(starts) if starts else {}
        fatal = next((refusal for refusal in refusals.values() if not is_of_one_step(refusal)), None)
        for start in starts:
            refusal = refusals.get(start.step.order)
            if refusal is not None:
                self._end_flight(start.step)
                if is_of_one_step(refusal):
                    skipped.append(_Conclusion(start.step, StepEnd(StepState.SKIPPED, refusal.cause)))
            elif self.writer.opening_state is StepState.PROVED:
                self._end_flight(start.step)
                self._put(start.step, StepState.PROVED, "nothing speaks against it")
            else:
                self._tell_begun(start)
        if fatal is not None:
            raise fatal
        self._conclude(skipped)

    def _tell_begun(self, start: StepStart) -> None:
        step, state = start.step, self.writer.opening_state
        result = StepResult(step.order, step.bundle, step.source, step.destination, state, "")
        self.decisions.tell_step(step, result, start.view.record, start.record)
        self._unseen |= set(children_of(step))

    def _take_off(self, step: Step, within_s: float, may_begin_again: bool = False) -> None:
        now_s = self.clock.monotonic_s()
        self._flights[step.order] = _Flight(step, now_s, now_s + within_s, may_begin_again)
        self._flight_of |= dict.fromkeys(bundles_of(step), step.order)

    def _end_flight(self, step: Step) -> None:
        del self._flights[step.order]
        for bundle in bundles_of(step):
            del self._flight_of[bundle]

    def _progress(self) -> None:
        """Wait for the next changes, take out what has reached its end, and fail what is overdue."""
        if not self._flights:
            return
        self.writer.await_connection()
        changed: Iterable[str] = self._unseen or self.view.next_changes(LONGEST_WAIT_FOR_A_CHANGE_S)
        self._unseen = set()
        landing = {self._flight_of[bundle] for bundle in changed if bundle in self._flight_of}
        self._touched |= {bundle for bundle in changed if bundle in self._settled}
        # A split ends with a change of the boundaries, which no watch tells of.
        splits = {order for order, flight in self._flights.items() if flight.step.kind == StepKind.SPLIT}
        self._land(landing | splits)
        self._deal_with_overdue()

    def _land(self, orders: Iterable[int]) -> None:
        """Take the flights out that have reached an end state, and journal them together; a failure stops the line."""
        flights = [self._flights[order] for order in sorted(orders)]
        if not flights:
            return
        views = self.view.look([bundle for flight in flights for bundle in bundles_of(flight.step)])
        boundaries = self.view.boundaries(
            {namespace_of(flight.step) for flight in flights if flight.step.kind == StepKind.SPLIT}
        )
        ended = [
            (flight, end)
            for flight in flights
            if (end := find_end(flight.step, views, boundaries.get(namespace_of(flight.step), ()))) is not None
        ]
        if not ended:
            return
        incarnations = self.view.incarnations({f.step.destination for f, _ in ended if f.step.destination})
        now_s = self.clock.monotonic_s()
        conclusions = []
        for flight, end in ended:
            told = end.detail if end.state is StepState.FAILED else end.detail + tell_restart(flight.step, incarnations)
            view = views[flight.step.bundle]
            conclusions.append(_Conclusion(flight.step, StepEnd(end.state, told), now_s - flight.began_s, view.record))
        self._finish(conclusions)

    def _deal_with_overdue(self) -> None:
        """Look once more at what is overdue; only what is still under way then has missed its deadline."""
        now_s = self.clock.monotonic_s()
        overdue = [order for order, flight in self._flights.items() if now_s > flight.deadline_s]
        if not overdue:
            return
        self._land(overdue)
        late = []
        for flight in [self._flights[order] for order in overdue if order in self._flights]:
            if flight.may_begin_again:
                self._end_flight(flight.step)
            else:
                why = f"not settled within {self.settings.step_deadline_s:.0f} s"
                late.append(_Conclusion(flight.step, StepEnd(StepState.FAILED, why)))
        # One failure stops the line; the others stay under way for whoever looks next.
        self._finish(late[:1])

    def _finish(self, conclusions: Sequence[_Conclusion]) -> None:
        """Journal steps that have ended; the first failure among them stops the line."""
        self._conclude(conclusions)
        for conclusion in conclusions:
            self._end_flight(conclusion.step)
            if conclusion.end.state is StepState.SETTLED:
                self._settled[conclusion.step.bundle] = conclusion.step
        for conclusion in conclusions:
            if conclusion.end.state is StepState.FAILED:
                step = conclusion.step
                raise RunStoppedError(
                    f"step {step.order} failed, {step.bundle}: {conclusion.end.detail}",
                    "find out why, then apply the plan again to go on, or plan anew",
                )

    def _require_health(self) -> None:
        """Stop the line unless the cluster looks as it should after a wave."""
        if self.writer.opening_state is StepState.PROVED:
            return
        self._touched |= {bundle for bundle in self.view.next_changes(0.0) if bundle in self._settled}
        touched, self._touched = sorted(self._touched), set()
        fault = (
            find_broker_fault(self._incarnations, self.view.incarnations(self._incarnations))
            or find_unplanned_move([self._settled[bundle] for bundle in touched], self.view.look(touched))
            or (None if self.view.leader() else "no broker leads the cluster now")
            or self._find_load_fault()
        )
        if fault is not None:
            raise RunStoppedError(fault, "see what happened there, then apply the plan again to go on, or plan anew")

    def _find_load_fault(self) -> str | None:
        limit, read_load = self.settings.health_load_error, self.circumstances.read_load
        if limit is None or read_load is None:
            return None
        balances = self.circumstances.balances
        settled = [step for step in self.steps if self._is_settled(step)]
        return find_load_fault(balances, predict(balances, settled), read_load(), limit)

    def _is_settled(self, step: Step) -> bool:
        result = self._results.get(step.order)
        return result is not None and result.state is StepState.SETTLED

    def _boundaries(self, steps: Iterable[Step]) -> frozenset[int]:
        namespaces = {namespace_of(step) for step in steps if step.kind == StepKind.SPLIT}
        return frozenset().union(*self.view.boundaries(namespaces).values())

    def _conclude(self, conclusions: Sequence[_Conclusion]) -> None:
        """Journal what became of steps, together, and tell it."""
        if not conclusions:
            return
        self.writer.conclude([self._entry(c.step, c.end.state, c.end.detail) for c in conclusions])
        for conclusion in conclusions:
            self._put(
                conclusion.step, conclusion.end.state, conclusion.end.detail, conclusion.seconds, conclusion.record
            )

    def _put(
        self,
        step: Step,
        state: StepState,
        detail: str,
        seconds: float | None = None,
        record: ServiceUnitRecord | None = None,
    ) -> None:
        rounded = None if seconds is None else round(seconds, 3)
        result = StepResult(step.order, step.bundle, step.source, step.destination, state, detail, rounded)
        self._results[step.order] = result
        self.decisions.tell_step(step, result, after=record)
        self.circumstances.on_progress(result)

    def _warn(self, warnings: Iterable[str]) -> None:
        for warning in warnings:
            log.warning("%s", warning)
            self.decisions.tell(Decision.WARNED, warning)

    def _entry(self, step: Step, state: StepState, detail: str) -> JournalEntry:
        return JournalEntry(
            plan_id=self.plan_id,
            order=step.order,
            bundle=step.bundle,
            source=step.source,
            destination=step.destination,
            epoch=self._epoch,
            state=state,
            at_ms=self._now_ms(),
            detail=detail,
        )

    def _standing(self, state: RunState, detail: str) -> PlanStanding:
        counts = Counter(str(result.state) for result in self._results.values())
        return PlanStanding(
            plan_id=self.plan_id,
            holder="",
            epoch=self._epoch,
            state=state,
            at_ms=self._now_ms(),
            counts={**counts, "planned": len(self.steps)},
            detail=detail,
        )

    def _now_ms(self) -> int:
        return round(self.clock.now().timestamp() * 1000)
