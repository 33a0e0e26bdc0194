"""The account of a run: what became of each step, told to the journal, the audit record and whoever looks on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.execution.assignment import Assignment
from evenkeel.execution.steps import StepEnd
from evenkeel.model.observation import StepStart
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, PlanStanding, RunState, StepResult, StepState
from evenkeel.model.service_unit import ServiceUnitRecord


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: a result for each step that it came to, how it ended, and why it stopped early, if it did.

    `unfinished` is the standing that the run could not write any more: its way out is still to be gone.
    """

    state: RunState
    results: tuple[StepResult, ...]
    stopped_because: str | None
    unfinished: PlanStanding | None = None


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What is to be journalled of a step."""

    step: Step
    end: StepEnd
    seconds: float | None = None
    record: ServiceUnitRecord | None = None


class Account:
    """The results of one run."""

    def __init__(self, assignment: Assignment) -> None:
        self._assignment = assignment
        self._results: dict[int, StepResult] = {}

    @property
    def results(self) -> tuple[StepResult, ...]:
        """One for each step that was come to, in the plan's order."""
        return tuple(self._results[order] for order in sorted(self._results))

    def result_of(self, step: Step) -> StepResult | None:
        return self._results.get(step.order)

    def adopt(self, result: StepResult) -> None:
        """Take over a result that was told before."""
        self._results[result.order] = result

    def put(
        self,
        step: Step,
        state: StepState,
        detail: str,
        seconds: float | None = None,
        record: ServiceUnitRecord | None = None,
    ) -> None:
        """Put down what became of a step, and tell it; the journal knows already, or need not."""
        rounded = None if seconds is None else round(seconds, 3)
        result = StepResult(step.order, step.bundle, step.source, step.destination, state, detail, rounded)
        self._results[step.order] = result
        self._assignment.decisions.tell_step(step, result, after=record)
        self._assignment.circumstances.on_progress(result)

    def tell_begun(self, start: StepStart) -> None:
        """Tell that a step is under way; its result comes when it has ended."""
        step, state = start.step, self._assignment.writer.opening_state
        result = StepResult(step.order, step.bundle, step.source, step.destination, state, "")
        self._assignment.decisions.tell_step(step, result, start.view.record, start.record)

    def conclude(self, conclusions: Sequence[Conclusion]) -> None:
        """Journal what became of steps, together, and tell it."""
        if not conclusions:
            return
        self._assignment.writer.conclude([self.entry(c.step, c.end.state, c.end.detail) for c in conclusions])
        for c in conclusions:
            self.put(c.step, c.end.state, c.end.detail, c.seconds, c.record)

    def entry(self, step: Step, state: StepState, detail: str = "") -> JournalEntry:
        return JournalEntry(
            plan_id=self._assignment.plan_id,
            order=step.order,
            bundle=step.bundle,
            source=step.source,
            destination=step.destination,
            epoch=self._assignment.decisions.epoch,
            state=state,
            at_ms=self._assignment.now_ms(),
            detail=detail,
        )

    def standing(self, state: RunState, detail: str = "") -> PlanStanding:
        counts = Counter(str(result.state) for result in self._results.values())
        return PlanStanding(
            plan_id=self._assignment.plan_id,
            holder="",
            epoch=self._assignment.decisions.epoch,
            state=state,
            at_ms=self._assignment.now_ms(),
            counts={**counts, "planned": len(self._assignment.steps)},
            detail=detail,
        )
