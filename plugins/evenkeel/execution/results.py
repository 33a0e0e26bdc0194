"""The results of a run: what became of each step, for the journal, the audit record and the progress display."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.execution.context import RunContext
from evenkeel.execution.steps import StepEnd
from evenkeel.model.observation import StepStart
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, PlanStatus, RunState, StepResult, StepState
from evenkeel.model.service_unit import ServiceUnitRecord


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run did: a result for each step that it reached, how it ended, and why it stopped early, if it did.

    `unfinished` is the status that the run could no longer write: its teardown is still to be done. `is_repeat` means
    that there was nothing to do, because an earlier run had done it all.
    """

    state: RunState
    results: tuple[StepResult, ...]
    stopped_because: str | None
    unfinished: PlanStatus | None = None
    is_repeat: bool = False


@dataclass(frozen=True, slots=True)
class Conclusion:
    """What to journal about a step."""

    step: Step
    end: StepEnd
    seconds: float | None = None
    record: ServiceUnitRecord | None = None


def tell_skipped(results: Sequence[StepResult], planned: int) -> str:
    """A sentence for a run in which steps were skipped, with the commonest reason; empty where none was."""
    skipped = [result for result in results if result.state is StepState.SKIPPED]
    if not skipped:
        return ""
    ((reason, count),) = Counter(result.detail for result in skipped).most_common(1)
    settled = sum(result.state is StepState.SETTLED for result in results)
    why = f"because {reason}" if count == len(skipped) else f"{count} of them because {reason}"
    return f"{settled} of {planned} steps settled, {len(skipped)} skipped, {why}"


class RunResults:
    """The results of one run."""

    def __init__(self, context: RunContext) -> None:
        self._context = context
        self._results: dict[int, StepResult] = {}

    @property
    def results(self) -> tuple[StepResult, ...]:
        """One for each step that was reached, in the plan's order."""
        return tuple(self._results[order] for order in sorted(self._results))

    def result_of(self, step: Step) -> StepResult | None:
        return self._results.get(step.order)

    def adopt(self, result: StepResult) -> None:
        """Take over a result that was reported before."""
        self._results[result.order] = result

    def put(
        self,
        step: Step,
        state: StepState,
        detail: str,
        seconds: float | None = None,
        record: ServiceUnitRecord | None = None,
        earlier_epoch: int | None = None,
    ) -> None:
        """Record what became of a step and report it; the journal has it already, or does not need it."""
        rounded = None if seconds is None else round(seconds, 3)
        result = StepResult(
            step.order, step.bundle, step.source, step.destination, state, detail, rounded, earlier_epoch
        )
        self._results[step.order] = result
        self._context.decisions.tell_step(step, result, after=record)
        self._context.options.on_progress(result)

    def tell_begun(self, start: StepStart) -> None:
        """Report that a step is in flight; its result comes when it has ended."""
        step, state = start.step, self._context.writer.opening_state
        result = StepResult(step.order, step.bundle, step.source, step.destination, state, "")
        self._context.decisions.tell_step(step, result, start.view.record, start.record)

    def conclude(self, conclusions: Sequence[Conclusion]) -> None:
        """Journal what became of steps, together, and report it."""
        if not conclusions:
            return
        self._context.writer.conclude([self.entry(c.step, c.end.state, c.end.detail) for c in conclusions])
        for c in conclusions:
            self.put(c.step, c.end.state, c.end.detail, c.seconds, c.record)

    def entry(self, step: Step, state: StepState, detail: str = "") -> JournalEntry:
        return JournalEntry(
            plan_id=self._context.plan_id,
            order=step.order,
            bundle=step.bundle,
            source=step.source,
            destination=step.destination,
            epoch=self._context.decisions.epoch,
            state=state,
            at_ms=self._context.now_ms(),
            detail=detail,
        )

    def status(self, state: RunState, detail: str = "") -> PlanStatus:
        counts = Counter(str(result.state) for result in self._results.values())
        return PlanStatus(
            plan_id=self._context.plan_id,
            holder="",
            epoch=self._context.decisions.epoch,
            state=state,
            at_ms=self._context.now_ms(),
            counts={**counts, "planned": len(self._context.steps)},
            detail=detail,
        )
