"""The wave loop: every wave begins with proofs, and settles before the next one begins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from evenkeel.execution.preflight import require_in_time
from evenkeel.execution.steps import build_record, find_failure, find_obstacle, is_settled, tell_settled
from evenkeel.model.errors import EvenkeelError, FencedOutError, RefusedError, RunStoppedError
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import Plan, Step
from evenkeel.model.run import JournalEntry, StepResult, StepState
from evenkeel.model.settings import Settings
from evenkeel.ports import Clock, ClusterView, GuardedWriter

LONGEST_WAIT_FOR_A_CHANGE_S = 0.5
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: a result for each step that it came to, and why it stopped early, if it did."""

    epoch: int
    results: tuple[StepResult, ...]
    stopped_because: str | None


@dataclass(slots=True)
class _Flight:
    """A step under way; one whose call may be made again goes back to its wave instead of failing."""

    step: Step
    began_s: float
    deadline_s: float
    may_begin_again: bool = False


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
    on_progress: Callable[[StepResult], None] = lambda result: None
    _epoch: int = 0
    _results: dict[int, StepResult] = field(default_factory=dict)
    _flights: dict[str, _Flight] = field(default_factory=dict)

    def execute(self) -> Outcome:
        """Apply the plan wave by wave; stops the line at the first failure, and always lets the fence go."""
        self._epoch = self.writer.acquire(self.plan_id)
        stopped_because = None
        try:
            self._adopt_journal()
            for _, wave in groupby(self.steps, key=lambda step: step.wave):
                self._apply_wave([step for step in wave if step.order not in self._results])
            self._require_no_failure()
        except EvenkeelError as error:
            stopped_because = str(error)
            log.warning("run of plan %s stopped: %s", self.plan_id[:12], error)
            self._tell_flights()
        finally:
            self.writer.release()
        results = tuple(self._results[order] for order in sorted(self._results))
        return Outcome(self._epoch, results, stopped_because)

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
                self._flights[step.bundle] = self._take_off(step, self.settings.admin_call_timeout_s, True)
            elif entry.state is StepState.APPLIED:
                self._flights[step.bundle] = self._take_off(step, self.settings.step_deadline_s)
            elif entry.state is StepState.FAILED and is_settled(step, self.view.look([step.bundle])[step.bundle]):
                self._note(step, StepState.SETTLED, "settled after the run that gave up on it")
            else:
                self._note(step, entry.state, f"by an earlier run, epoch {entry.epoch}", journalled=True)
        self._await()

    def _require_no_failure(self) -> None:
        failed = [result for result in self._results.values() if result.state is StepState.FAILED]
        if failed:
            raise RunStoppedError(
                f"{len(failed)} steps of an earlier run have failed, the first on {failed[0].bundle}",
                "see where these bundles are, then plan anew",
            )

    def _apply_wave(self, wave: Sequence[Step]) -> None:
        """Begin a wave's steps, a few at a time, and wait until all have settled."""
        if not wave:
            return
        self._require_same_policies()
        waiting = list(wave)
        while waiting:
            free = self.settings.in_flight_steps - len(self._flights)
            batch, waiting = waiting[:free], waiting[free:]
            self._begin(batch)
            self._await(until_free=bool(waiting))

    def _require_same_policies(self) -> None:
        planned = self.plan.policy_versions
        found = self.view.policy_versions(sorted(planned))
        changed = [path for path, version in planned.items() if found.get(path) != version]
        if changed:
            raise RefusedError(f"the policy {changed[0]} has changed since the snapshot", "plan again")

    def _begin(self, batch: Sequence[Step]) -> None:
        require_in_time(self.plan, self.plan_id, self.clock.now())
        if self.view.is_stopped():
            raise RunStoppedError("an operator has stopped all writing", "remove the node `stop` to let it go on")
        views = self.view.look([step.bundle for step in batch])
        named = {broker for step in batch for broker in (step.source, step.destination) if broker}
        incarnations = self.view.incarnations(named)
        for step in batch:
            self._begin_step(step, views[step.bundle], incarnations)

    def _begin_step(self, step: Step, view: BundleView, incarnations: Mapping[str, int]) -> None:
        """Begin one step if every proof holds; otherwise journal why not."""
        obstacle = find_obstacle(step, view, incarnations)
        if obstacle is not None:
            self._note(step, StepState.SKIPPED, obstacle)
            return
        record = build_record(step, view, self._now_ms())
        # In the air before the call: whatever becomes of it, the run then tells of this step.
        self._flights[step.bundle] = self._take_off(step, self.settings.step_deadline_s)
        try:
            self.writer.begin(step, view, record, self._entry(step, self.writer.opening_state, ""))
        except FencedOutError:
            raise
        except RefusedError as error:
            del self._flights[step.bundle]
            self._note(step, StepState.SKIPPED, error.cause)
            return
        if self.writer.opening_state is StepState.PROVED:
            del self._flights[step.bundle]
            self._note(step, StepState.PROVED, "nothing speaks against it")

    def _take_off(self, step: Step, within_s: float, may_begin_again: bool = False) -> _Flight:
        now_s = self.clock.monotonic_s()
        return _Flight(step, now_s, now_s + within_s, may_begin_again)

    def _await(self, until_free: bool = False) -> None:
        """Wait until flights have landed (the first of them, or all); a deadline or a failure stops the line."""
        changed: Iterable[str] = list(self._flights)
        while self._flights:
            landed = self._land(changed)
            if not self._flights or (until_free and landed):
                return
            changed = self.view.next_changes(LONGEST_WAIT_FOR_A_CHANGE_S)
            self._deal_with_overdue()

    def _land(self, changed: Iterable[str]) -> bool:
        """Take the flights out that have reached an end state; answers whether there was one."""
        views = self.view.look([bundle for bundle in changed if bundle in self._flights])
        settled = [bundle for bundle, view in views.items() if is_settled(self._flights[bundle].step, view)]
        incarnations = self.view.incarnations({view.owner for b in settled if (view := views[b]).owner})
        for bundle in settled:
            flight = self._flights.pop(bundle)
            took_s = self.clock.monotonic_s() - flight.began_s
            self._note(flight.step, StepState.SETTLED, tell_settled(flight.step, incarnations), seconds=took_s)
        for bundle, view in views.items():
            if bundle in self._flights and (failure := find_failure(self._flights[bundle].step, view)):
                self._fail(bundle, failure)
        return bool(settled)

    def _deal_with_overdue(self) -> None:
        """Look once more at what is overdue; only what is still under way then has missed its deadline."""
        now_s = self.clock.monotonic_s()
        overdue = [bundle for bundle, flight in self._flights.items() if now_s > flight.deadline_s]
        if not overdue:
            return
        self._land(overdue)
        for bundle in overdue:
            if bundle in self._flights and self._flights[bundle].may_begin_again:
                del self._flights[bundle]
            elif bundle in self._flights:
                self._fail(bundle, f"not settled within {self.settings.step_deadline_s:.0f} s")

    def _fail(self, bundle: str, why: str) -> None:
        step = self._flights.pop(bundle).step
        self._note(step, StepState.FAILED, why)
        raise RunStoppedError(
            f"step {step.order} failed, {step.bundle}: {why}",
            "find out why, then apply the plan again to go on, or plan anew",
        )

    def _tell_flights(self) -> None:
        """Put down the steps that are still under way when a run stops; the journal has them open already."""
        for flight in self._flights.values():
            self._note(flight.step, self.writer.opening_state, "under way when the run stopped", journalled=True)

    def _note(
        self, step: Step, state: StepState, detail: str, seconds: float | None = None, journalled: bool = False
    ) -> None:
        if not journalled:
            self.writer.conclude(self._entry(step, state, detail))
        rounded = None if seconds is None else round(seconds, 3)
        result = StepResult(step.order, step.bundle, step.source, step.destination, state, detail, rounded)
        self._results[step.order] = result
        log.info("step %d %s: %s %s", step.order, step.bundle, state, detail)
        self.on_progress(result)

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

    def _now_ms(self) -> int:
        return round(self.clock.now().timestamp() * 1000)
