"""The gate between a plan and its approval."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from evenkeel import __version__
from evenkeel.gates.frames import JudgedPlan, SnapshotFrames, frame_of, rows_of
from evenkeel.gates.hard_rules import PlacedLoads
from evenkeel.gates.loads import bundle_loads
from evenkeel.gates.validation import UNJUDGED, run_suite
from evenkeel.model.errors import InputError
from evenkeel.model.load import Resource
from evenkeel.model.moments import format_time
from evenkeel.model.plan import BY_HAND_STRATEGIES, BrokerBalance, Plan, Step, StepKind
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState, PolicyDocument
from evenkeel.model.tables import column
from evenkeel.model.verdict import Check, Severity, Verdict
from evenkeel.planning.horizon import horizon_hours

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.planning.rules.verifier import Violation

_ID_CHARACTERS = 12
NO_WORSE = "plan_is_no_worse_than_before"


@dataclass(frozen=True, slots=True)
class PlanRow:
    """The plan's document, the one row of the dataset `plan`."""

    expires_at: str = column("moment at which the plan expires")
    taken_at: str = column("moment of its snapshot")
    lifetime_s: float = column("seconds from the snapshot to the expiry")
    steps: int = column("steps of the plan")
    truncated: bool = column("whether a deadline cut the search short")


@dataclass(frozen=True, slots=True)
class StepRow:
    """A step beside what the snapshot says of its bundle, a row of the dataset `plan_steps`."""

    order: int = column("place in the total order")
    wave: int = column("wave of the step")
    kind: str = column("split, transfer or unload")
    bundle: str = column("bundle that the step changes")
    source: str = column("owner by the plan")
    is_in_snapshot: bool = column("whether the snapshot knows the bundle")
    snapshot_owner: str | None = column("owner by the snapshot")


@dataclass(frozen=True, slots=True)
class BalanceRow(BrokerBalance):
    """A row of the plan's table `brokers` beside what snapshot and steps say, of the dataset `plan_brokers`."""

    used_in_snapshot: int = column("load before by the snapshot")
    used_by_steps: int = column("load before, less what the steps take away, plus what they bring")


@dataclass(frozen=True, slots=True)
class ViolationRow:
    """A hard rule that the plan breaks, a row of the dataset `plan_violations`."""

    place: int = column("place among the verifier's findings")
    order: int | None = column("step that breaks it; null where it is the plan as a whole")
    detail: str = column("the breach in words")


def judge_plan(spark: SparkSession, stored: JudgedPlan, frames: SnapshotFrames, settings: Settings) -> Verdict:
    """Say whether a plan keeps every hard rule and budget, fits its snapshot and makes nothing worse."""
    brokers = rows_of(Broker, frames.brokers)
    policies = Policies.from_documents(rows_of(PolicyDocument, frames.policies))
    hours = horizon_hours(_moment_of(stored.plan.snapshot_id), settings.plan_expires_after_s)
    loads = bundle_loads(frames, brokers, hours, settings)
    placed = PlacedLoads.collect(loads, frames.topics, stored.steps, policies)
    violations = placed.find_violations(stored.steps, brokers, policies, settings)
    is_by_hand = stored.plan.strategy in BY_HAND_STRATEGIES
    datasets = {
        "plan": frame_of(spark, PlanRow, [_plan_row(stored.plan, stored.steps)]),
        "plan_violations": frame_of(spark, ViolationRow, _violation_rows(violations, is_by_hand)),
        "plan_steps": frame_of(spark, StepRow, _step_rows(stored.steps, placed)),
        "plan_brokers": frame_of(spark, BalanceRow, _balance_rows(stored.brokers, stored.steps, placed)),
    }
    parameters = settings.to_json() | {"may_rise": _has_to_move(stored, brokers)}
    checks = [check for name, rows in datasets.items() for check in run_suite(name, rows, parameters)]
    if is_by_hand:
        checks = list(map(_leave_to_the_person, checks))
    return Verdict(f"plan {stored.plan_id[:_ID_CHARACTERS]}", tuple(checks), __version__)


def _has_to_move(stored: JudgedPlan, brokers: Sequence[Broker]) -> bool:
    """Whether the plan empties brokers or repairs rules, which may cost balance."""
    emptied = {b.broker_id for b in brokers if b.state in (BrokerState.STOPPING, BrokerState.INACTIVE)}
    violations = stored.plan.violations
    return any(s.source in emptied for s in stored.steps) or violations.get("before") != violations.get("after")


def _plan_row(plan: Plan, steps: Sequence[Step]) -> PlanRow:
    taken_at = _moment_of(plan.snapshot_id)
    lifetime_s = (plan.expires_at - taken_at).total_seconds()
    return PlanRow(format_time(plan.expires_at), format_time(taken_at), lifetime_s, len(steps), plan.truncated)


def _moment_of(snapshot_id: str) -> datetime:
    """When a snapshot was taken, to the second, by its id."""
    try:
        return datetime.strptime(snapshot_id.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
    except ValueError as error:
        raise InputError(f"{snapshot_id!r} is not a snapshot's id", "plan again from a snapshot of the lake") from error


def _leave_to_the_person(check: Check) -> Check:
    """A person who chose the steps may make the balance worse, and is told so before the yes."""
    is_judged = check.passed or not check.detail.startswith(UNJUDGED.format(check.name))
    return replace(check, severity=Severity.WARNING) if check.name == NO_WORSE and is_judged else check


def _violation_rows(violations: Sequence[Violation], is_by_hand: bool) -> Iterator[ViolationRow]:
    from evenkeel.planning.rules.violation import GOALS

    hard = [violation for violation in violations if not (is_by_hand and violation.rule in GOALS)]
    for place, violation in enumerate(hard):
        yield ViolationRow(place, violation.order, violation.detail)


def _step_rows(steps: Sequence[Step], placed: PlacedLoads) -> Iterator[StepRow]:
    from evenkeel.planning.rules.units import parents_of

    parents = parents_of(steps)
    for step in steps:
        # A child of the plan's own splits begins where its parent is.
        found = parents.get(step.bundle, step.bundle)
        is_known, owner = placed.knows(found), placed.owner_of(found)
        yield StepRow(step.order, step.wave, step.kind, step.bundle, step.source, is_known, owner)


def _balance_rows(
    balances: Sequence[BrokerBalance], steps: Sequence[Step], placed: PlacedLoads
) -> Iterator[BalanceRow]:
    moved: Counter[tuple[str | None, str]] = Counter()
    for step in steps:
        # Splits leave the load where it is; what an unload lets go of, Pulsar places.
        for resource, load in _loads_of(step) if step.kind != StepKind.SPLIT else ():
            moved[step.source, resource] -= load
            moved[step.destination, resource] += load
    for row in balances:
        used_by_steps = row.used_before + moved[row.broker_id, row.resource]
        used_in_snapshot = placed.used(row.broker_id, row.resource)
        yield BalanceRow(**asdict(row), used_in_snapshot=used_in_snapshot, used_by_steps=used_by_steps)


def _loads_of(step: Step) -> Iterator[tuple[str, int]]:
    yield str(Resource.CPU), step.cpu_millipercent
    yield str(Resource.BANDWIDTH_IN), step.throughput_in_bytes_per_s
    yield str(Resource.BANDWIDTH_OUT), step.throughput_out_bytes_per_s
