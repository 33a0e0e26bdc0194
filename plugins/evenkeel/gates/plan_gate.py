"""The gate between a plan and its approval.

It looks at the plan's own tables, which are small, beside the loads of its snapshot, which this process or Spark holds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from typing import Any, Protocol

from evenkeel import __version__
from evenkeel.adapters.lake.store import to_arrow
from evenkeel.gates.expected_checks import expect_of_plan
from evenkeel.gates.plan_rules import NO_WORSE
from evenkeel.gates.suites import UNJUDGED, judge_tables
from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.errors import InputError
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import BY_HAND_STRATEGIES, BrokerBalance, Plan, Rejection, Step, StepKind
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.model.tables import column
from evenkeel.model.timestamps import format_time
from evenkeel.model.verdict import Check, Severity, Subject, Verdict
from evenkeel.planning.problem.loads import horizon_hours
from evenkeel.planning.splitting.cuts import Cut
from evenkeel.planning.verifier.units import GOALS, Violation, parents_of
from evenkeel.planning.verifier.verifier import find_violations
from evenkeel_spark.cluster_loads import RESOURCE_COLUMNS, BundlesAtStake, ClusterLoads, as_columns, boundaries_of

JudgeSuite = Callable[[str, Mapping[str, Any], Mapping[str, Any]], list[Check]]


class JudgedPlan(Protocol):
    """A plan with its tables, however it was stored."""

    @property
    def plan(self) -> Plan: ...

    @property
    def plan_id(self) -> str: ...

    @property
    def steps(self) -> Sequence[Step]: ...

    @property
    def rejections(self) -> Sequence[Rejection]: ...

    @property
    def brokers(self) -> Sequence[BrokerBalance]: ...


@dataclass(frozen=True, slots=True)
class JudgedSnapshot:
    """The snapshot of a plan: brokers, policies, and the loads that the plan was made for."""

    brokers: Sequence[Broker]
    policies: Policies
    loads: ClusterLoads


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


def judge_plan(
    stored: JudgedPlan,
    snapshot: JudgedSnapshot,
    settings: Settings,
    judge_suite: JudgeSuite = judge_tables,
) -> Verdict:
    """Say whether a plan keeps every hard rule and budget, fits its snapshot and makes nothing worse."""
    placed = PlacedLoads.collect(snapshot, stored.steps)
    violations = placed.find_violations(stored.steps, snapshot, settings)
    is_by_hand = stored.plan.strategy in BY_HAND_STRATEGIES
    tables = {
        "plan": to_arrow(PlanRow, [_plan_row(stored.plan, stored.steps)]),
        "plan_violations": to_arrow(ViolationRow, _violation_rows(violations, is_by_hand)),
        "plan_steps": to_arrow(StepRow, _step_rows(stored.steps, placed)),
        "plan_brokers": to_arrow(BalanceRow, _balance_rows(stored.brokers, stored.steps, placed)),
    }
    parameters = settings.to_json() | {"may_rise": _has_to_move(stored, snapshot.brokers)}
    suites = expect_of_plan(stored.plan.strategy).suites
    checks = [check for suite in suites for check in judge_suite(suite, tables, parameters)]
    if is_by_hand:
        checks = list(map(_leave_to_the_person, checks))
    return Verdict(Subject.PLAN, stored.plan_id, suites, tuple(checks), __version__)


def plan_hours(plan: Plan, settings: Settings) -> tuple[int, ...]:
    """The hours of the week that a plan has to hold for."""
    return horizon_hours(_moment_of(plan.snapshot_id), settings.plan_expires_after_s)


class PlacedLoads:
    """The load of a snapshot as the verifier sees it: bundles at stake one by one, and the load of the others."""

    def __init__(self, rows: Sequence[dict[str, Any]], cuts: Mapping[str, Cut]) -> None:
        self._rows, self._cuts = rows, cuts
        self._by_bundle = {row["bundle"]: row for row in rows}
        self._used: Counter[tuple[str, str]] = Counter()
        for row in rows:
            if not is_system_namespace(row["namespace"]):
                for resource, name in zip(RESOURCES, RESOURCE_COLUMNS, strict=True):
                    self._used[row["owner"], str(resource)] += row[name]

    @classmethod
    def collect(cls, snapshot: JudgedSnapshot, steps: Sequence[Step]) -> PlacedLoads:
        """What matters for these steps, and where the topics say that its splits would cut."""
        placed = snapshot.loads.placed(BundlesAtStake.of(steps, snapshot.policies))
        return cls(placed, snapshot.loads.find_cuts(boundaries_of(steps)))

    def knows(self, bundle: str) -> bool:
        return bundle in self._by_bundle

    def owner_of(self, bundle: str) -> str | None:
        """The owner of a bundle at stake; None where it has none, or the snapshot does not know it."""
        row = self._by_bundle.get(bundle)
        return None if row is None else row["owner"]

    def used(self, broker_id: str, resource: str) -> int:
        """The load of a broker's bundles, without those that are never planned."""
        return self._used[broker_id, resource]

    def find_violations(self, steps: Sequence[Step], snapshot: JudgedSnapshot, settings: Settings) -> list[Violation]:
        """Every hard rule that the steps break."""
        bundles = as_columns(self._rows)
        return find_violations(steps, snapshot.brokers, bundles, snapshot.policies, settings, self._cuts)


def _has_to_move(stored: JudgedPlan, brokers: Sequence[Broker]) -> bool:
    """Whether the plan empties brokers or repairs rules, which may cost balance."""
    emptied = {b.broker_id for b in brokers if b.state in (BrokerState.STOPPING, BrokerState.INACTIVE)}
    violations = stored.plan.violations
    repairs = violations is not None and violations.before != violations.after
    return repairs or any(step.source in emptied for step in stored.steps)


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
    hard = [violation for violation in violations if not (is_by_hand and violation.rule in GOALS)]
    for place, violation in enumerate(hard):
        yield ViolationRow(place, violation.order, violation.detail)


def _step_rows(steps: Sequence[Step], placed: PlacedLoads) -> Iterator[StepRow]:
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
        for resource, load in zip(RESOURCES, step.load, strict=True) if step.kind != StepKind.SPLIT else ():
            moved[step.source, resource] -= load
            moved[step.destination, resource] += load
    for row in balances:
        used_by_steps = row.used_before + moved[row.broker_id, row.resource]
        used_in_snapshot = placed.used(row.broker_id, row.resource)
        yield BalanceRow(**asdict(row), used_in_snapshot=used_in_snapshot, used_by_steps=used_by_steps)
