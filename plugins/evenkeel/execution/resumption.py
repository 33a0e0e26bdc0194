"""Resuming where the journal ends: what an earlier run of the plan has done is taken over, never repeated."""

from __future__ import annotations

from evenkeel.execution.context import RunContext, RunTask
from evenkeel.execution.in_flight_steps import InFlightSteps, find_ends
from evenkeel.execution.results import Conclusion, Outcome, RunResults
from evenkeel.execution.steps import StepEnd, bundles_of
from evenkeel.execution.stop_conditions import StopConditions
from evenkeel.model.errors import RefusedError, RunStoppedError
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, RunState, StepResult, StepState
from evenkeel.model.run_events import name_run
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.ports import GuardedWriter


def adopt_journal(
    context: RunContext, results: RunResults, in_flight: InFlightSteps, stop_conditions: StopConditions
) -> None:
    """Take over what an earlier run of this plan has done, and wait for what it has left in flight."""
    by_order = {step.order: step for step in context.steps}
    for order, entry in context.writer.journal(context.plan_id).items():
        step = by_order.get(order)
        if step is None or step.bundle != entry.bundle:
            raise RefusedError(f"journal entry {order} does not belong to this plan", "inspect the plan's journal")
        _adopt(step, entry, context, results, in_flight)
    in_flight.look_first_at(bundle for step in in_flight.steps for bundle in bundles_of(step))
    while in_flight:
        in_flight.progress()
        stop_conditions.require_no_signal()


def find_finished(task: RunTask, writer: GuardedWriter) -> Outcome | None:
    """What an earlier run of the plan did, if it left nothing to do; None otherwise."""
    status = writer.statuses().get(task.plan_id)
    if status is None or status.state is not RunState.DONE:
        return None
    journal = writer.journal(task.plan_id)
    entries = [(step, journal.get(step.order)) for step in task.steps]
    if any(entry is None or entry.state not in (StepState.SETTLED, StepState.SKIPPED) for _, entry in entries):
        return None
    task.decisions.epoch = status.epoch
    results = tuple(
        StepResult(*_name(step), entry.state, tell_earlier(entry), earlier_epoch=entry.epoch)
        for step, entry in entries
        if entry is not None
    )
    for (step, _), result in zip(entries, results, strict=True):
        task.decisions.tell_step(step, result)
    run_id = name_run(task.plan_id, status.epoch)
    return Outcome(RunState.DONE, results, f"already applied by run {run_id}: nothing to do", is_repeat=True)


def tell_earlier(entry: JournalEntry) -> str:
    """What an earlier run journalled about a step."""
    return f"by an earlier run, epoch {entry.epoch}" + (f": {entry.detail}" if entry.detail else "")


def _name(step: Step) -> tuple[int, str, str, str | None]:
    return step.order, step.bundle, step.source, step.destination


def require_no_failure(results: RunResults) -> None:
    """Refuse to call a run done if a step has failed, in whichever run of the plan."""
    failed = [result for result in results.results if result.state is StepState.FAILED]
    if failed:
        raise RunStoppedError(
            f"{len(failed)} steps of an earlier run have failed, the first on {failed[0].bundle}",
            "check where these bundles are, then plan again",
        )


def _adopt(step: Step, entry: JournalEntry, context: RunContext, results: RunResults, in_flight: InFlightSteps) -> None:
    """A step that was applied, or failed, is looked at again and never repeated.

    An intent whose call may still be in progress is given the call's time-out; if the bundle has not moved by then, the
    call is made again.
    """
    settings = context.settings
    if entry.state is StepState.INTENDED:
        in_flight.add(step, settings.admin_call_timeout_s, may_begin_again=True)
    elif entry.state is StepState.APPLIED:
        in_flight.add(step, settings.step_deadline_s)
    elif entry.state is StepState.FAILED:
        _adopt_failure(step, entry, context, results, in_flight)
    else:
        _adopt_end(step, entry, context, results)


def _adopt_failure(
    step: Step, entry: JournalEntry, context: RunContext, results: RunResults, in_flight: InFlightSteps
) -> None:
    """A step that was given up may have settled since; while it is still in flight, nothing else may begin.

    A call to a broker that has shown no effect is an open intent, whether its writer died or gave it up: a broker whose
    own ZooKeeper was away answers with an error, and the bundle stays where it was.
    """
    ends, seen = find_ends(context.view, [step])
    end = ends.get(step.order)
    if end is not None and end.state is StepState.SETTLED:
        results.conclude([Conclusion(step, StepEnd(StepState.SETTLED, "settled after the run that gave it up"))])
    elif end is None and context.writer.opening_state is StepState.INTENDED:
        in_flight.add(step, context.settings.admin_call_timeout_s, may_begin_again=True)
    elif end is None and seen[step.bundle].state is not ServiceUnitState.OWNED:
        in_flight.add(step, context.settings.step_deadline_s)
    else:
        _adopt_end(step, entry, context, results)


def _adopt_end(step: Step, entry: JournalEntry, context: RunContext, results: RunResults) -> None:
    known = context.options.known.get(step.order)
    if known is not None and known.state is entry.state:
        results.adopt(known)
    else:
        results.put(step, entry.state, tell_earlier(entry), earlier_epoch=entry.epoch)
