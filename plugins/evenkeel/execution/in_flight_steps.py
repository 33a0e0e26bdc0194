"""The steps in flight: each reaches its end state, or is overdue.

    added ──▶ in flight ──▶ ended: journalled as settled, or as failed, which stops the run
                  └──▶ overdue: looked at once more, then failed

An intent of a dead writer is given its call's time-out first. If the bundle has not moved by then, the call was never
made, and the step goes back to its wave; else its destination is enforced, and it is overdue like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.execution.context import RunContext
from evenkeel.execution.results import Conclusion, RunResults
from evenkeel.execution.steps import StepEnd, bundles_of, find_end, namespace_of, tell_restart, tell_unloads
from evenkeel.model.errors import RunStoppedError
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.run import StepState
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.ports import ClusterView

LONGEST_WAIT_FOR_A_CHANGE_S = 0.5


@dataclass(frozen=True, slots=True)
class InFlightStep:
    """A step in flight; if it may begin again, it is not known whether its call was made."""

    step: Step
    began_s: float
    deadline_s: float
    may_begin_again: bool = False


def find_ends(view: ClusterView, steps: Sequence[Step]) -> tuple[dict[int, StepEnd], Mapping[str, BundleView]]:
    """Look at the bundles of steps; returns how steps have ended, by their order, and every bundle as it was seen."""
    seen = view.look([bundle for step in steps for bundle in bundles_of(step)])
    boundaries = view.boundaries({namespace_of(step) for step in steps if step.kind == StepKind.SPLIT})
    ends = {step.order: find_end(step, seen, boundaries.get(namespace_of(step), ())) for step in steps}
    return {order: end for order, end in ends.items() if end is not None}, seen


class InFlightSteps:
    """All steps in flight, and which of the settled bundles have changed since."""

    def __init__(self, context: RunContext, results: RunResults) -> None:
        self._view = context.view
        self._writer = context.writer
        self._clock = context.clock
        self._step_deadline_s = context.settings.step_deadline_s
        self._results = results
        self._by_order: dict[int, InFlightStep] = {}
        self._order_of: dict[str, int] = {}
        self._unseen: set[str] = set()
        self._settled: dict[str, Step] = {}
        self._touched: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_order)

    @property
    def steps(self) -> list[Step]:
        return [pending.step for pending in self._by_order.values()]

    def add(self, step: Step, within_s: float, may_begin_again: bool = False) -> None:
        """Expect a step to reach its end state within some seconds."""
        now_s = self._clock.monotonic_s()
        self._by_order[step.order] = InFlightStep(step, now_s, now_s + within_s, may_begin_again)
        self._order_of |= dict.fromkeys(bundles_of(step), step.order)

    def remove(self, step: Step) -> None:
        del self._by_order[step.order]
        for bundle in bundles_of(step):
            del self._order_of[bundle]

    def look_first_at(self, bundles: Iterable[str]) -> None:
        """Look at bundles next time without waiting for a change: they are not watched yet."""
        self._unseen |= set(bundles)

    def progress(self) -> None:
        """Wait for the next changes, conclude steps that have ended, and fail those that are overdue."""
        if not self._by_order:
            return
        self._writer.await_connection()
        changed: Collection[str] = self._unseen or self._view.next_changes(LONGEST_WAIT_FOR_A_CHANGE_S)
        self._unseen = set()
        touched = {self._order_of[bundle] for bundle in changed if bundle in self._order_of}
        self._note_touched(changed)
        # A split ends with a change of the boundaries, which is not watched.
        splits = {order for order, pending in self._by_order.items() if pending.step.kind == StepKind.SPLIT}
        self._conclude_ended(touched | splits)
        self._deal_with_overdue()

    def settled_and_touched(self) -> list[Step]:
        """Steps that have settled and whose bundles have changed since the last call."""
        if not self._settled:
            return []
        self._note_touched(self._view.next_changes(0.0))
        touched, self._touched = sorted(self._touched), set()
        return [self._settled[bundle] for bundle in touched]

    def _note_touched(self, changed: Iterable[str]) -> None:
        self._touched |= {bundle for bundle in changed if bundle in self._settled}

    def _conclude_ended(self, orders: Iterable[int]) -> None:
        """Journal the steps that have reached an end state, all together; a failure stops the run."""
        in_flight = [self._by_order[order] for order in sorted(orders)]
        if not in_flight:
            return
        ends, seen = find_ends(self._view, [pending.step for pending in in_flight])
        ended = [pending for pending in in_flight if pending.step.order in ends]
        if not ended:
            return
        incarnations = self._view.incarnations({f.step.destination for f in ended if f.step.destination})
        now_s = self._clock.monotonic_s()
        conclusions = []
        for pending in ended:
            step, end = pending.step, ends[pending.step.order]
            told = end.detail if end.state is StepState.FAILED else end.detail + tell_restart(step, incarnations)
            told += tell_unloads(self._writer.unloads(step))
            conclusions.append(
                Conclusion(step, StepEnd(end.state, told), now_s - pending.began_s, seen[step.bundle].record)
            )
        self._finish(conclusions)

    def _deal_with_overdue(self) -> None:
        """Look once more at what is overdue; only what is still in flight then has missed its deadline."""
        now_s = self._clock.monotonic_s()
        overdue = [order for order, pending in self._by_order.items() if now_s > pending.deadline_s]
        if not overdue:
            return
        self._conclude_ended(overdue)
        late = []
        for pending in [self._by_order[order] for order in overdue if order in self._by_order]:
            if pending.may_begin_again:
                self._follow_up(pending.step)
            else:
                late.append(pending.step)
        # One failure stops the run; the others stay in flight for the next run to look at.
        self._finish([self._conclude_late(step) for step in late[:1]])

    def _follow_up(self, step: Step) -> None:
        """Return an intent whose call changed nothing to its wave; give one with an effect time to reach its end."""
        found = self._view.look([step.bundle])[step.bundle]
        self.remove(step)
        if found.state is ServiceUnitState.OWNED and found.owner == step.source:
            return
        self._writer.enforce_destination(step)
        self.add(step, self._step_deadline_s)
        self.look_first_at(bundles_of(step))

    def _conclude_late(self, step: Step) -> Conclusion:
        found = self._view.look([step.bundle])[step.bundle]
        where = f"the bundle is {found.state}, owned by {found.owner or 'nobody'}"
        why = f"not settled within {self._step_deadline_s:.0f} s: {where}{tell_unloads(self._writer.unloads(step))}"
        return Conclusion(step, StepEnd(StepState.FAILED, why), record=found.record)

    def _finish(self, conclusions: Sequence[Conclusion]) -> None:
        """Journal steps that have ended; the first failure among them stops the run."""
        self._results.conclude(conclusions)
        for conclusion in conclusions:
            self.remove(conclusion.step)
            if conclusion.end.state is StepState.SETTLED:
                self._settled[conclusion.step.bundle] = conclusion.step
        for conclusion in conclusions:
            if conclusion.end.state is StepState.FAILED:
                step = conclusion.step
                raise RunStoppedError(
                    f"step {step.order} failed, {step.bundle}: {conclusion.end.detail}",
                    "find out why, then apply the plan again to go on, or plan again",
                )
