"""The steps under way: each takes off, and lands in its end state, or is found overdue.

take off ──▶ under way ──▶ landed: journalled as settled, or as failed, which stops the line
                 └──▶ overdue: looked at once more, then failed

An intent of a dead writer is given its call's time-out first. If the bundle has not stirred by then, the call was never
made, and the step goes back to its wave; else it is driven home, and is overdue like any other.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.execution.account import Account, Conclusion
from evenkeel.execution.assignment import Assignment
from evenkeel.execution.steps import StepEnd, bundles_of, find_end, namespace_of, tell_restart
from evenkeel.model.errors import RunStoppedError
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.run import StepState
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.ports import ClusterView

LONGEST_WAIT_FOR_A_CHANGE_S = 0.5


@dataclass(frozen=True, slots=True)
class Flight:
    """A step under way; of one that may begin again nobody knows yet whether its call was made."""

    step: Step
    began_s: float
    deadline_s: float
    may_begin_again: bool = False


def find_ends(view: ClusterView, steps: Sequence[Step]) -> tuple[dict[int, StepEnd], Mapping[str, BundleView]]:
    """Look at the bundles of steps: those of the steps that have ended, by their order, and all that was seen."""
    seen = view.look([bundle for step in steps for bundle in bundles_of(step)])
    boundaries = view.boundaries({namespace_of(step) for step in steps if step.kind == StepKind.SPLIT})
    ends = {step.order: find_end(step, seen, boundaries.get(namespace_of(step), ())) for step in steps}
    return {order: end for order, end in ends.items() if end is not None}, seen


class Flights:
    """All steps under way, and which of the settled bundles have changed since."""

    def __init__(self, assignment: Assignment, account: Account) -> None:
        self._view = assignment.view
        self._writer = assignment.writer
        self._clock = assignment.clock
        self._step_deadline_s = assignment.settings.step_deadline_s
        self._account = account
        self._by_order: dict[int, Flight] = {}
        self._order_of: dict[str, int] = {}
        self._unseen: set[str] = set()
        self._settled: dict[str, Step] = {}
        self._touched: set[str] = set()

    def __len__(self) -> int:
        return len(self._by_order)

    @property
    def steps(self) -> list[Step]:
        return [flight.step for flight in self._by_order.values()]

    def take_off(self, step: Step, within_s: float, may_begin_again: bool = False) -> None:
        now_s = self._clock.monotonic_s()
        self._by_order[step.order] = Flight(step, now_s, now_s + within_s, may_begin_again)
        self._order_of |= dict.fromkeys(bundles_of(step), step.order)

    def take_out(self, step: Step) -> None:
        del self._by_order[step.order]
        for bundle in bundles_of(step):
            del self._order_of[bundle]

    def look_first_at(self, bundles: Iterable[str]) -> None:
        """Look at bundles next time without waiting for a change: nobody watches them yet."""
        self._unseen |= set(bundles)

    def progress(self) -> None:
        """Wait for the next changes, take out what has reached its end, and fail what is overdue."""
        if not self._by_order:
            return
        self._writer.await_connection()
        changed: Collection[str] = self._unseen or self._view.next_changes(LONGEST_WAIT_FOR_A_CHANGE_S)
        self._unseen = set()
        landing = {self._order_of[bundle] for bundle in changed if bundle in self._order_of}
        self._note_touched(changed)
        # A split ends with a change of the boundaries, which no watch tells of.
        splits = {order for order, flight in self._by_order.items() if flight.step.kind == StepKind.SPLIT}
        self._land(landing | splits)
        self._deal_with_overdue()

    def settled_and_touched(self) -> list[Step]:
        """Steps that have settled, and whose bundles have changed since anybody asked."""
        if not self._settled:
            return []
        self._note_touched(self._view.next_changes(0.0))
        touched, self._touched = sorted(self._touched), set()
        return [self._settled[bundle] for bundle in touched]

    def _note_touched(self, changed: Iterable[str]) -> None:
        self._touched |= {bundle for bundle in changed if bundle in self._settled}

    def _land(self, orders: Iterable[int]) -> None:
        """Take the flights out that have reached an end state, and journal them together; a failure stops the line."""
        flights = [self._by_order[order] for order in sorted(orders)]
        if not flights:
            return
        ends, seen = find_ends(self._view, [flight.step for flight in flights])
        landed = [flight for flight in flights if flight.step.order in ends]
        if not landed:
            return
        incarnations = self._view.incarnations({f.step.destination for f in landed if f.step.destination})
        now_s = self._clock.monotonic_s()
        conclusions = []
        for flight in landed:
            step, end = flight.step, ends[flight.step.order]
            told = end.detail if end.state is StepState.FAILED else end.detail + tell_restart(step, incarnations)
            conclusions.append(
                Conclusion(step, StepEnd(end.state, told), now_s - flight.began_s, seen[step.bundle].record)
            )
        self._finish(conclusions)

    def _deal_with_overdue(self) -> None:
        """Look once more at what is overdue; only what is still under way then has missed its deadline."""
        now_s = self._clock.monotonic_s()
        overdue = [order for order, flight in self._by_order.items() if now_s > flight.deadline_s]
        if not overdue:
            return
        self._land(overdue)
        late = []
        for flight in [self._by_order[order] for order in overdue if order in self._by_order]:
            if flight.may_begin_again:
                self._follow_up(flight.step)
            else:
                late.append(flight.step)
        # One failure stops the line; the others stay under way for whoever looks next.
        self._finish([self._conclude_late(step) for step in late[:1]])

    def _follow_up(self, step: Step) -> None:
        """Give an intent back whose call changed nothing; see to it that one with an effect comes to its end."""
        found = self._view.look([step.bundle])[step.bundle]
        self.take_out(step)
        if found.state is ServiceUnitState.OWNED and found.owner == step.source:
            return
        self._writer.drive_home(step)
        self.take_off(step, self._step_deadline_s)
        self.look_first_at(bundles_of(step))

    def _conclude_late(self, step: Step) -> Conclusion:
        found = self._view.look([step.bundle])[step.bundle]
        where = f"the bundle is {found.state}, owned by {found.owner or 'nobody'}"
        why = f"not settled within {self._step_deadline_s:.0f} s: {where}"
        return Conclusion(step, StepEnd(StepState.FAILED, why), record=found.record)

    def _finish(self, conclusions: Sequence[Conclusion]) -> None:
        """Journal steps that have ended; the first failure among them stops the line."""
        self._account.conclude(conclusions)
        for conclusion in conclusions:
            self.take_out(conclusion.step)
            if conclusion.end.state is StepState.SETTLED:
                self._settled[conclusion.step.bundle] = conclusion.step
        for conclusion in conclusions:
            if conclusion.end.state is StepState.FAILED:
                step = conclusion.step
                raise RunStoppedError(
                    f"step {step.order} failed, {step.bundle}: {conclusion.end.detail}",
                    "find out why, then apply the plan again to go on, or plan anew",
                )
