"""The wave loop: every wave begins with proofs, and settles before the next one begins."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from evenkeel.execution.preflight import require_in_time
from evenkeel.execution.steps import build_record, find_failure, find_obstacle, is_settled
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
    """A step under way."""

    step: Step
    began_s: float
    deadline_s: float


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

    def execute(self) -> Outcome:
        """Apply the plan wave by wave; stops the line at the first failure, and always lets the fence go."""
        self._epoch = self.writer.acquire(self.plan_id)
        stopped_because = None
        try:
            self._adopt_journal()
            for _, wave in groupby(self.steps, key=lambda step: step.wave):
                self._apply_wave([step for step in wave if step.order not in self._results])
        except EvenkeelError as error:
            stopped_because = str(error)
            log.warning("run of plan %s stopped: %s", self.plan_id[:12], error)
        finally:
            self.writer.release()
        results = tuple(self._results[order] for order in sorted(self._results))
        return Outcome(self._epoch, results, stopped_because)

    def _adopt_journal(self) -> None:
        """Take over what an earlier run of this plan has done; what it left open is awaited, never repeated."""
        by_order = {step.order: step for step in self.steps}
        open_steps = []
        for order, entry in self.writer.journal(self.plan_id).items():
            step = by_order.get(order)
            if step is None or step.bundle != entry.bundle:
                raise RefusedError(f"the journal's entry {order} is not of this plan", "look at the plan's journal")
            if entry.state.is_open:
                open_steps.append(step)
            else:
                self._note(step, entry.state, f"by an earlier run, epoch {entry.epoch}", journalled=True)
        self._await({step.bundle: self._take_off(step) for step in open_steps})

    def _apply_wave(self, wave: Sequence[Step]) -> None:
        """Begin a wave's steps, a few at a time, and wait until all have settled."""
        if not wave:
            return
        self._prove_wave()
        waiting = list(wave)
        flights: dict[str, _Flight] = {}
        while waiting or flights:
            free = self.settings.in_flight_steps - len(flights)
            batch, waiting = waiting[:free], waiting[free:]
            flights |= self._begin(batch)
            self._await(flights, until_free=bool(waiting))

    def _prove_wave(self) -> None:
        """Prove what holds for all steps of a wave: time, kill switch, policies."""
        require_in_time(self.plan, self.plan_id, self.clock.now())
        if self.view.is_stopped():
            raise RunStoppedError("an operator has stopped all writing", "resume with `evenkeel resume`")
        planned = self.plan.policy_versions
        found = self.view.policy_versions(sorted(planned))
        changed = [path for path, version in planned.items() if found.get(path) != version]
        if changed:
            raise RefusedError(f"the policy {changed[0]} has changed since the snapshot", "plan again")

    def _begin(self, batch: Sequence[Step]) -> dict[str, _Flight]:
        views = self.view.look([step.bundle for step in batch])
        named = {broker for step in batch for broker in (step.source, step.destination) if broker}
        incarnations = self.view.incarnations(named)
        flights = {}
        for step in batch:
            if self._begin_step(step, views[step.bundle], incarnations):
                flights[step.bundle] = self._take_off(step)
        return flights

    def _begin_step(self, step: Step, view: BundleView, incarnations: Mapping[str, int]) -> bool:
        """Begin one step if every proof holds; otherwise journal why not. Answers whether it is under way."""
        obstacle = find_obstacle(step, view, incarnations)
        if obstacle is None:
            record = build_record(step, view, self._now_ms())
            try:
                self.writer.begin(step, view, record, self._entry(step, self.writer.opening_state, ""))
            except FencedOutError:
                raise
            except RefusedError as error:
                obstacle = error.cause
        if obstacle is not None:
            self._note(step, StepState.SKIPPED, obstacle)
            return False
        if self.writer.opening_state is StepState.PROVED:
            self._note(step, StepState.PROVED, "nothing speaks against it")
            return False
        return True

    def _take_off(self, step: Step) -> _Flight:
        now_s = self.clock.monotonic_s()
        return _Flight(step, now_s, now_s + self.settings.step_deadline_s)

    def _await(self, flights: dict[str, _Flight], until_free: bool = False) -> None:
        """Wait until flights have landed (the first of them, or all); a deadline or a failure stops the line."""
        changed: Iterable[str] = list(flights)
        while flights:
            landed = self._land(flights, changed)
            if not flights or (until_free and landed):
                return
            changed = self.view.next_changes(LONGEST_WAIT_FOR_A_CHANGE_S)
            self._stop_if_overdue(flights)

    def _land(self, flights: dict[str, _Flight], changed: Iterable[str]) -> bool:
        """Take the flights out that have reached an end state; answers whether there was one."""
        views = self.view.look([bundle for bundle in changed if bundle in flights])
        landed = False
        for bundle, view in views.items():
            flight = flights[bundle]
            failure = find_failure(flight.step, view)
            if failure is not None:
                self._fail(flight, failure)
            if is_settled(flight.step, view):
                del flights[bundle]
                landed = True
                took_s = self.clock.monotonic_s() - flight.began_s
                self._note(flight.step, StepState.SETTLED, f"owned by {view.owner}", seconds=took_s)
        return landed

    def _stop_if_overdue(self, flights: Mapping[str, _Flight]) -> None:
        now_s = self.clock.monotonic_s()
        for flight in flights.values():
            if now_s > flight.deadline_s:
                self._fail(flight, f"not settled within {self.settings.step_deadline_s:.0f} s")

    def _fail(self, flight: _Flight, why: str) -> None:
        self._note(flight.step, StepState.FAILED, why)
        raise RunStoppedError(
            f"step {flight.step.order} failed, {flight.step.bundle}: {why}",
            "find out why, then apply the plan again to go on, or plan anew",
        )

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
