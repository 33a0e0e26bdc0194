"""Does the cluster look as it should after a wave? If not, the run stops."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evenkeel.execution.context import RunContext
from evenkeel.execution.in_flight_steps import InFlightSteps
from evenkeel.execution.results import RunResults
from evenkeel.model.errors import RunStoppedError
from evenkeel.model.load import RESOURCES
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import BrokerBalance, Step, StepKind
from evenkeel.model.run import StepState
from evenkeel.model.service_unit import ServiceUnitState

Load = Mapping[tuple[str, str], int]


class HealthCheck:
    """Compares the cluster with what it was when the run began, and with what the plan predicts."""

    def __init__(self, context: RunContext, results: RunResults, in_flight: InFlightSteps) -> None:
        self._context = context
        self._results = results
        self._in_flight = in_flight
        named = {broker for step in context.steps for broker in (step.source, step.destination) if broker}
        self._incarnations = context.view.incarnations(named)

    def require_health(self) -> None:
        """Stop the run unless the cluster looks as it should after a wave."""
        if self._context.task.is_dry_run:
            return
        view = self._context.view
        touched = self._in_flight.settled_and_touched()
        fault = (
            find_broker_fault(self._incarnations, view.incarnations(self._incarnations))
            or find_unplanned_move(touched, view.look([step.bundle for step in touched]))
            or (None if view.leader() else "the cluster has no leader now")
            or self._find_load_fault()
        )
        if fault is not None:
            raise RunStoppedError(fault, "find out what happened, then apply the plan again to go on, or plan again")

    def _find_load_fault(self) -> str | None:
        options = self._context.options
        limit, read_load = self._context.settings.health_load_error, options.read_load
        if limit is None or read_load is None:
            return None
        settled = [step for step in self._context.steps if self._is_settled(step)]
        predicted = predict(options.balances, settled)
        return find_load_fault(options.balances, predicted, read_load(), limit)

    def _is_settled(self, step: Step) -> bool:
        result = self._results.result_of(step)
        return result is not None and result.state is StepState.SETTLED


def find_broker_fault(at_first: Mapping[str, int], now: Mapping[str, int]) -> str | None:
    """Which of a run's brokers has left or restarted since the run began; None if all are the same."""
    for broker, incarnation in sorted(at_first.items()):
        found = now.get(broker)
        if found is None:
            return f"broker {broker} is no longer registered"
        if found != incarnation:
            return f"broker {broker} has restarted during the run: incarnation {found}, it was {incarnation}"
    return None


def find_unplanned_move(settled: Iterable[Step], views: Mapping[str, BundleView]) -> str | None:
    """Which settled bundle is no longer where this run put it, among those with a view; None if all are."""
    for step in settled:
        view = views.get(step.bundle)
        if step.kind != StepKind.TRANSFER or view is None:
            continue
        if view.state is not ServiceUnitState.OWNED or view.owner != step.destination:
            return f"{step.bundle} was moved by somebody else: it is {view.state}, owned by {view.owner or 'nobody'}"
    return None


def predict(rows: Sequence[BrokerBalance], settled: Iterable[Step]) -> dict[tuple[str, str], int]:
    """The load of each broker once some of a plan's transfers have settled."""
    load = {(row.broker_id, row.resource): row.used_before for row in rows}
    for step in settled:
        if step.kind != StepKind.TRANSFER:
            continue
        for resource, amount in zip(RESOURCES, step.load, strict=True):
            for broker, sign in ((step.source, -1), (str(step.destination), 1)):
                if (broker, resource) in load:
                    load[broker, resource] += sign * amount
    return load


def find_load_fault(rows: Sequence[BrokerBalance], predicted: Load, realised: Load, limit: float) -> str | None:
    """Which broker carries more than predicted, by more than this share of its limit; None if none does."""
    for row in rows:
        key = row.broker_id, row.resource
        if key not in realised or row.limit <= 0:
            continue
        error = (realised[key] - predicted[key]) / row.limit
        # Less load than predicted is harmless: clients may have left.
        if error > limit:
            return (
                f"broker {row.broker_id} carries more {row.resource} than predicted, by {error:.0%} of its limit; "
                f"health_load_error allows {limit:.0%}"
            )
    return None
