"""Does the cluster look as it should after a wave? Pure: everything was read before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from evenkeel.model.load import Resource
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import BrokerBalance, Step, StepKind
from evenkeel.model.service_unit import ServiceUnitState

Load = Mapping[tuple[str, str], int]


def find_broker_fault(at_first: Mapping[str, int], now: Mapping[str, int]) -> str | None:
    """Say which of a run's brokers has left or restarted since the run began."""
    for broker, incarnation in sorted(at_first.items()):
        found = now.get(broker)
        if found is None:
            return f"broker {broker} is not registered any more"
        if found != incarnation:
            return f"broker {broker} has restarted during the run: incarnation {found}, it was {incarnation}"
    return None


def find_unplanned_move(settled: Iterable[Step], views: Mapping[str, BundleView]) -> str | None:
    """Say which bundle has left the place where this run put it; only bundles that have changed since are looked at."""
    for step in settled:
        view = views.get(step.bundle)
        if step.kind != StepKind.TRANSFER or view is None:
            continue
        if view.state is not ServiceUnitState.OWNED or view.owner != step.destination:
            return f"{step.bundle} was moved by another hand: it is {view.state}, owned by {view.owner or 'nobody'}"
    return None


def predict(rows: Sequence[BrokerBalance], settled: Iterable[Step]) -> dict[tuple[str, str], int]:
    """The load of each broker once some of a plan's transfers have settled."""
    load = {(row.broker_id, row.resource): row.used_before for row in rows}
    for step in settled:
        if step.kind != StepKind.TRANSFER:
            continue
        moved = {
            str(Resource.CPU): step.cpu_millipercent,
            str(Resource.BANDWIDTH_IN): step.throughput_in_bytes_per_s,
            str(Resource.BANDWIDTH_OUT): step.throughput_out_bytes_per_s,
        }
        for resource, amount in moved.items():
            for broker, sign in ((step.source, -1), (str(step.destination), 1)):
                if (broker, resource) in load:
                    load[broker, resource] += sign * amount
    return load


def find_load_fault(rows: Sequence[BrokerBalance], predicted: Load, realised: Load, limit: float) -> str | None:
    """Say which broker carries something else than predicted, by more than a part of its limit."""
    for row in rows:
        key = row.broker_id, row.resource
        if key not in realised or row.limit <= 0:
            continue
        error = (realised[key] - predicted[key]) / row.limit
        # Less load than predicted harms nobody; clients may have left.
        if error > limit:
            return (
                f"broker {row.broker_id} carries {error:.0%} of its {row.resource} more than predicted, "
                f"health_load_error allows {limit:.0%}"
            )
    return None
