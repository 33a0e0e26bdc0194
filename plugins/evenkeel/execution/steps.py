"""One step: what must hold before it begins, what it writes, and how its end is recognised.

    Owned by the source ──begin──▶ in flight ──▶ the end state of its kind: settled
            │                          ├──▶ owned by a broker that should not have it: failed
            │                          └──▶ neither before the deadline: failed
            └── a check fails: skipped, with the reason

    transfer   Releasing to the destination        ends Owned by the destination
    unload     Releasing to nobody in particular   ends Free, without a record, or Owned by any broker
    split      Splitting into two children         ends with the parent gone, both children Owned, and the split
                                                   boundary among the namespace's boundaries

A bundle in flight is never "fixed": Pulsar's own leader repairs what its brokers leave behind.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import RefusedError
from evenkeel.model.observation import BundleView
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.run import StepState
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.pulsar_rules.state_machine import find_conflict, next_version_id

_GONE = (ServiceUnitState.INIT, ServiceUnitState.DELETED)
_WITHOUT_OWNER = (ServiceUnitState.INIT, ServiceUnitState.FREE)


@dataclass(frozen=True, slots=True)
class StepEnd:
    """How a step has ended, and the detail to report."""

    state: StepState
    detail: str


def namespace_of(step: Step) -> str:
    return BundleName.parse(step.bundle).namespace


def children_of(step: Step) -> tuple[str, ...]:
    """The bundles that a split creates; none for other steps."""
    if step.kind != StepKind.SPLIT or step.split_boundary is None:
        return ()
    parent = BundleName.parse(step.bundle)
    return tuple(str(replace(parent, range=part)) for part in parent.range.split_at(step.split_boundary))


def bundles_of(step: Step) -> tuple[str, ...]:
    """The bundles whose records show how far a step has come."""
    return (step.bundle, *children_of(step))


def find_obstacle(
    step: Step,
    view: BundleView,
    incarnations: Mapping[str, int],
    boundaries: Collection[int],
    draining: Collection[str] = (),
) -> str | None:
    """Why a step may not begin now; None where everything is as the plan expects.

    `boundaries` are those of the bundle's namespace now, none if the namespace is gone.
    """
    obstacle = _find_defect(step) or _find_missing_bundle(step, boundaries)
    if obstacle is not None:
        return obstacle
    if view.state is not ServiceUnitState.OWNED:
        return f"the bundle is {view.state}, not Owned"
    if view.owner != step.source:
        return f"the bundle is owned by {view.owner}, not by {step.source}"
    if view.version_id != step.expected_version_id:
        return f"the bundle is at version {view.version_id}, the plan was made for {step.expected_version_id}"
    for broker, planned in ((step.source, step.source_incarnation), (step.destination, step.destination_incarnation)):
        if broker is None:
            continue
        found = incarnations.get(broker)
        if found is None:
            return f"broker {broker} is not registered"
        if found != planned:
            return f"broker {broker} has restarted: incarnation {found}, the plan was made for {planned}"
    if step.destination in draining:
        return f"broker {step.destination} is being drained"
    return None


def build_record(step: Step, view: BundleView, now_ms: int) -> ServiceUnitRecord | None:
    """The record that a step writes, proved legal by Pulsar's state machine; None where the cluster keeps none."""
    if view.record is None:
        return None
    is_split = step.kind == StepKind.SPLIT
    record = ServiceUnitRecord(
        state=ServiceUnitState.SPLITTING if is_split else ServiceUnitState.RELEASING,
        timestamp_ms=now_ms,
        version_id=next_version_id(view.record),
        destination=step.destination,
        source=step.source,
        # Pulsar never reads the destinations of children: a child is moved by a step of its own.
        children={name.rpartition("/")[2]: None for name in children_of(step)} if is_split else None,
    )
    conflict = find_conflict(view.record, record)
    if conflict:
        raise RefusedError(f"step {step.order} of {step.bundle} is not legal ({conflict})", "plan again")
    # A record that brokers cannot decode would block its bundle for good.
    if ServiceUnitRecord.decode(record.encode(), step.bundle) != record:
        raise RefusedError(f"the record of {step.bundle} cannot be decoded again", "report this as a bug")
    return record


def find_end(step: Step, views: Mapping[str, BundleView], boundaries: Collection[int] = ()) -> StepEnd | None:
    """How a step that has begun has ended; None while it may still settle."""
    view = views[step.bundle]
    is_owned = view.state is ServiceUnitState.OWNED
    if is_owned and _is_back(step, view):
        # An unload lets the cluster choose, and it may choose the same broker again.
        state = StepState.SETTLED if step.kind == StepKind.UNLOAD else StepState.FAILED
        return StepEnd(state, f"the bundle came back to {step.source}")
    match step.kind:
        case StepKind.SPLIT:
            return _find_split_end(step, views, boundaries)
        case StepKind.UNLOAD if view.state in _WITHOUT_OWNER:
            return StepEnd(StepState.SETTLED, "left without an owner until a client asks for it")
        case StepKind.UNLOAD if is_owned and view.owner != step.source:
            return StepEnd(StepState.SETTLED, f"owned by {view.owner}")
        case StepKind.TRANSFER if is_owned and view.owner == step.destination:
            return StepEnd(StepState.SETTLED, f"owned by {step.destination}")
        case StepKind.TRANSFER if is_owned and view.owner != step.source:
            return StepEnd(StepState.FAILED, f"the bundle went to {view.owner}")
    return None


def tell_restart(step: Step, incarnations: Mapping[str, int]) -> str:
    """A clause that says that the destination has restarted since the plan was made; empty where it has not."""
    if step.destination is None:
        return ""
    found = incarnations.get(step.destination)
    is_same = found == step.destination_incarnation
    return "" if is_same else f", which has restarted meanwhile (incarnation {found})"


def tell_unloads(count: int) -> str:
    """A clause that says how often a bundle was unloaded, and so its clients cut off; empty where it was not."""
    return "" if not count else f", {count} unload{'' if count == 1 else 's'}"


def _find_defect(step: Step) -> str | None:
    match step.kind:
        case StepKind.TRANSFER:
            return "the transfer names no destination" if step.destination is None else None
        case StepKind.UNLOAD:
            return None if step.destination is None else "an unload takes no destination"
        case StepKind.SPLIT:
            part = BundleName.parse(step.bundle).range
            is_inside = step.split_boundary is not None and part.lower < step.split_boundary < part.upper
            return None if is_inside else "the boundary is not inside the bundle's range"
    return f"this version does not support steps of kind {step.kind}"


def _find_missing_bundle(step: Step, boundaries: Collection[int]) -> str | None:
    """Why a bundle does not exist any more; its record may outlive it for a moment, or be gone already."""
    part = BundleName.parse(step.bundle).range
    if not boundaries:
        return f"namespace {namespace_of(step)} was deleted"
    cuts = sorted(boundary for boundary in boundaries if part.lower < boundary < part.upper)
    if cuts:
        there = f"0x{cuts[0]:08x}" if len(cuts) == 1 else f"{len(cuts)} boundaries"
        return f"the bundle was split at {there}"
    if part.lower not in boundaries or part.upper not in boundaries:
        return "the bundle is not one of its namespace's bundles"
    return None


def _is_back(step: Step, view: BundleView) -> bool:
    """Whether the source owns the bundle again: the step's own record was the version after the expected one."""
    if view.owner != step.source or view.version_id is None or step.expected_version_id is None:
        return False
    return view.version_id > step.expected_version_id + 1


def _find_split_end(step: Step, views: Mapping[str, BundleView], boundaries: Collection[int]) -> StepEnd | None:
    parent = views[step.bundle]
    if parent.state is ServiceUnitState.OWNED and parent.owner != step.source:
        return StepEnd(StepState.FAILED, f"the bundle went to {parent.owner}, whole")
    children = [views[name] for name in children_of(step)]
    is_whole = all(child.state is ServiceUnitState.OWNED for child in children) and step.split_boundary in boundaries
    if parent.state not in _GONE or not is_whole:
        return None
    owners = sorted({str(child.owner) for child in children})
    return StepEnd(StepState.SETTLED, f"two bundles, owned by {' and '.join(owners)}")
