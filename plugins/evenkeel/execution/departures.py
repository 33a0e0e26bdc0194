"""Beginning steps: all of a batch at once for which every proof holds; the journal says why the others are skipped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from evenkeel.execution.account import Account, Conclusion
from evenkeel.execution.assignment import Assignment
from evenkeel.execution.flights import Flights
from evenkeel.execution.steps import StepEnd, build_record, children_of, find_obstacle, namespace_of
from evenkeel.model.errors import EvenkeelError, NotDoneError, RefusedError, is_of_one_step
from evenkeel.model.observation import StepStart
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.run import StepState


class Departures:
    """Where steps begin."""

    def __init__(self, assignment: Assignment, account: Account, flights: Flights) -> None:
        self._assignment = assignment
        self._account = account
        self._flights = flights

    def begin(self, batch: Sequence[Step]) -> list[Step]:
        """Prove the steps of a batch, begin those that may, and skip the others; a fatal refusal is raised.

        Answers the steps that got lost on their way: they are to be proved anew, for time has passed meanwhile.
        """
        starts, skipped = self._prove(batch)
        for start in starts:
            # In the air before the call: whatever becomes of it, the run then tells of this step.
            self._flights.take_off(start.step, self._assignment.settings.step_deadline_s)
        refusals = self._assignment.writer.begin(starts) if starts else {}
        fatal = next((refusal for refusal in refusals.values() if not is_of_one_step(refusal)), None)
        skipped += self._sort_out(starts, refusals)
        if fatal is not None:
            raise fatal
        self._account.conclude(skipped)
        return [start.step for start in starts if isinstance(refusals.get(start.step.order), NotDoneError)]

    def _prove(self, batch: Sequence[Step]) -> tuple[list[StepStart], list[Conclusion]]:
        """What is to be written for each step that may begin, and why the others may not."""
        view = self._assignment.view
        seen = view.look([step.bundle for step in batch])
        incarnations = view.incarnations({b for step in batch for b in (step.source, step.destination) if b})
        boundaries = view.boundaries({namespace_of(step) for step in batch if step.kind == StepKind.SPLIT})
        draining = view.draining()
        now_ms = self._assignment.now_ms()
        starts, skipped = [], []
        for step in batch:
            found = seen[step.bundle]
            obstacle = find_obstacle(step, found, incarnations, boundaries.get(namespace_of(step), ()), draining)
            if obstacle is None:
                entry = self._account.entry(step, self._assignment.writer.opening_state)
                starts.append(StepStart(step, found, build_record(step, found, now_ms), entry))
            else:
                skipped.append(Conclusion(step, StepEnd(StepState.SKIPPED, obstacle), record=found.record))
        return starts, skipped

    def _sort_out(self, starts: Sequence[StepStart], refusals: Mapping[int, EvenkeelError]) -> list[Conclusion]:
        """Tell of the steps that have begun, and take out those that have not; answers the ones to be skipped."""
        skipped = []
        for start in starts:
            refusal = refusals.get(start.step.order)
            if refusal is not None:
                self._flights.take_out(start.step)
                if isinstance(refusal, RefusedError) and is_of_one_step(refusal):
                    skipped.append(Conclusion(start.step, StepEnd(StepState.SKIPPED, refusal.cause)))
            elif self._assignment.is_dry_run:
                self._flights.take_out(start.step)
                self._account.put(start.step, StepState.PROVED, "nothing speaks against it")
            else:
                self._account.tell_begun(start)
                self._flights.look_first_at(children_of(start.step))
        return skipped
