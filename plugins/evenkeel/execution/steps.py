"""One step: what must be proved before it, what it writes, and how its end is recognised.

    Owned by the source ──begin──▶ in flight ──▶ Owned by the destination: settled
            │                          ├──▶ owned by a third broker: failed
            │                          └──▶ neither before the deadline: failed
            └── a proof fails: skipped, with the reason

A bundle in flight is never "fixed": Pulsar's own leader repairs what its brokers leave behind.
"""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.model.errors import RefusedError
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.pulsar.state_machine import find_conflict, next_version_id


def find_obstacle(step: Step, view: BundleView, incarnations: Mapping[str, int]) -> str | None:
    """Say why a step may not begin now; None where everything is as the plan expects."""
    if step.kind != StepKind.TRANSFER or step.destination is None:
        return f"this version applies transfers, not a {step.kind}"
    if view.state is not ServiceUnitState.OWNED:
        return f"the bundle is {view.state}, not Owned"
    if view.owner != step.source:
        return f"the bundle is owned by {view.owner}, not by {step.source}"
    if view.version_id != step.expected_version_id:
        return f"the bundle is at version {view.version_id}, the plan was made for {step.expected_version_id}"
    for broker, planned in ((step.source, step.source_incarnation), (step.destination, step.destination_incarnation)):
        found = incarnations.get(broker)
        if found is None:
            return f"broker {broker} is not registered"
        if found != planned:
            return f"broker {broker} has restarted: incarnation {found}, the plan was made for {planned}"
    return None


def build_record(step: Step, view: BundleView, now_ms: int) -> ServiceUnitRecord | None:
    """The record that a step writes, proved legal by Pulsar's state machine; None where the cluster keeps none."""
    if view.record is None:
        return None
    record = ServiceUnitRecord(
        state=ServiceUnitState.RELEASING,
        timestamp_ms=now_ms,
        version_id=next_version_id(view.record),
        destination=step.destination,
        source=step.source,
    )
    conflict = find_conflict(view.record, record)
    if conflict:
        raise RefusedError(f"step {step.order} of {step.bundle} is not legal ({conflict})", "plan again")
    # A record that cannot be read back exactly would wedge its bundle for good (FACTS 3.7).
    if ServiceUnitRecord.decode(record.encode(), step.bundle) != record:
        raise RefusedError(f"the record of {step.bundle} does not survive its own encoding", "report this as a bug")
    return record


def is_settled(step: Step, view: BundleView) -> bool:
    """Whether the destination owns the bundle."""
    return view.state is ServiceUnitState.OWNED and view.owner == step.destination


def tell_settled(step: Step, incarnations: Mapping[str, int]) -> str:
    """Say who owns the bundle, and whether that broker is still the one that the plan was made for."""
    found = incarnations.get(str(step.destination))
    if found == step.destination_incarnation:
        return f"owned by {step.destination}"
    return f"owned by {step.destination}, which has restarted meanwhile (incarnation {found})"


def find_failure(step: Step, view: BundleView) -> str | None:
    """Say what went wrong with a step that has begun; None while it may still settle."""
    if view.state is ServiceUnitState.OWNED and view.owner not in (step.source, step.destination):
        return f"the bundle went to {view.owner}"
    return None
