"""A plan for the small cluster: one bundle of the hot broker goes to the idle one.

b01  60 → 40 MB/s      b02  20 MB/s      b03  10 → 30 MB/s      band to 42 MB/s of 125
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from evenkeel.model.figures import (
    Balance,
    Bounds,
    BrokenRules,
    CurvePoint,
    Gap,
    PoolFigures,
    PoolLimit,
    StepCounts,
    StrategyReplay,
    Utilisation,
    Violations,
)
from evenkeel.model.load import RESOURCES, Resource
from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.figures import describe_disruption
from support.small_cluster import B01, B02, B03, MEGABYTE, TAKEN_AT, manifest

FIRST = "shop/orders/0x00000000_0x40000000"
MOVED_MB = 20
BAND_MB = 42
LIMIT_MB = 125
SETTINGS = Settings(tolerance=0.4)
# The cpu of the small cluster: 1,000 thousandths of a percent a MB/s, of 400 %.
CPU_PER_MB, CPU_LIMIT = 1_000, 400_000

CURVE = (
    CurvePoint(0, 0, 0.0, 2.0, dict.fromkeys(RESOURCES, 2.0), least_moves=0),
    CurvePoint(1, 10, 7.0, 1.333, dict.fromkeys(RESOURCES, 1.333), least_moves=1),
)
POOL = PoolFigures(
    pool=B01,
    brokers=3,
    bundles=6,
    moves=1,
    bound_moves=1,
    gap=1.0,
    binding_resource=Resource.BANDWIDTH_IN,
    lowest_peak={Resource.CPU: 0.2, Resource.BANDWIDTH_IN: 0.24, Resource.BANDWIDTH_OUT: 0.2},
    peak_before={Resource.CPU: 0.4, Resource.BANDWIDTH_IN: 0.48, Resource.BANDWIDTH_OUT: 0.4},
    peak_after={Resource.CPU: 0.3, Resource.BANDWIDTH_IN: 0.32, Resource.BANDWIDTH_OUT: 0.3},
    reaches_band=False,
    limited_by=PoolLimit.GIANT_BUNDLE,
    advice=("splitting [shop]/big lets the band be reached",),
)
REPLAY = StrategyReplay(
    strategy="threshold-shedder",
    cycles=4,
    unloads=9,
    repeat_unloads=3,
    moves=6,
    worst_before=2.0,
    worst_after=1.5,
    moved_sessions=90,
    client_seconds=63.5,
    illegal=0,
    stopped_because="no broker is 10 points above the mean",
    explanation=("it sheds from b01 first",),
)


@dataclass(frozen=True)
class SmallPlan:
    """A plan with its tables, as a store would hand it out."""

    plan: Plan
    steps: Sequence[Step]
    rejections: Sequence[Rejection]
    brokers: Sequence[BrokerBalance]

    @property
    def plan_id(self) -> str:
        return self.plan.plan_id


def step(**changes: Any) -> Step:
    """The one step of the plan."""
    made = Step(
        order=0,
        wave=0,
        kind="transfer",
        bundle=FIRST,
        source=B01,
        source_incarnation=101,
        destination=B03,
        destination_incarnation=103,
        expected_version_id=7,
        throughput_in_bytes_per_s=MOVED_MB * MEGABYTE,
        throughput_out_bytes_per_s=MOVED_MB * MEGABYTE,
        cpu_millipercent=MOVED_MB * CPU_PER_MB,
        topics=10,
        sessions=10,
        disruption_client_ms=7_000,
        reason=f"{B01} uses 48.0 % of its bandwidth in",
    )
    return dataclasses.replace(made, **changes)


def balances(after_mb: tuple[int, int, int] = (40, 20, 30), band_mb: int = BAND_MB) -> list[BrokerBalance]:
    """The table `brokers` of the plan."""
    before_mb = (60, 20, 10)
    return [
        _balance(broker, resource, before, after, band_mb)
        for broker, before, after in zip((B01, B02, B03), before_mb, after_mb, strict=True)
        for resource in RESOURCES
    ]


def plan(**changes: Any) -> Plan:
    """The plan's document."""
    spread = Utilisation(mean=0.24, max=0.48, std=0.1, max_over_mean=2.0)
    evened = Utilisation(mean=0.24, max=0.32, std=0.05, max_over_mean=1.333)
    made = Plan(
        cluster="fleet",
        load_manager="extensible",
        snapshot_id=manifest().snapshot_id,
        profile_id="profile",
        candidates_id="candidates",
        strategy="certified",
        strategy_version=1,
        settings=SETTINGS.to_json(),
        policy_versions={"/admin/policies/shop/orders": PolicyVersion(17, 3)},
        anti_affinity={},
        expires_at=TAKEN_AT + timedelta(hours=4),
        step_counts=StepCounts(transfers=1),
        steps_sha256="1" * 64,
        rejections_sha256="2" * 64,
        brokers_sha256="3" * 64,
        inverse_sha256="4" * 64,
        balance=Balance(dict.fromkeys(RESOURCES, spread), dict.fromkeys(RESOURCES, evened)),
        bounds=Bounds(1, 10, dict.fromkeys(RESOURCES, 0.2), dict.fromkeys(RESOURCES, 1.0)),
        gap=Gap(1.0, 1.0, dict.fromkeys(RESOURCES, 1.0), dict.fromkeys(RESOURCES, 1.333)),
        disruption=describe_disruption([step()]),
        violations=Violations(BrokenRules(0, 0, 0, 0), BrokenRules(0, 0, 0, 0)),
        curve=(),
        pools=(),
        counterfactual=(),
        truncated=False,
        library_version="1.0.0",
    )
    return dataclasses.replace(made, **changes)


def stored(
    steps: Sequence[Step] | None = None, rows: Sequence[BrokerBalance] | None = None, **changes: Any
) -> SmallPlan:
    """The plan with its tables."""
    return SmallPlan(plan(**changes), [step()] if steps is None else steps, [], balances() if rows is None else rows)


def _balance(broker: str, resource: Resource, before_mb: int, after_mb: int, band_mb: int) -> BrokerBalance:
    unit = CPU_PER_MB if resource is Resource.CPU else MEGABYTE
    limit = CPU_LIMIT if resource is Resource.CPU else LIMIT_MB * MEGABYTE
    return BrokerBalance(broker, B01, str(resource), limit, before_mb * unit, after_mb * unit, band_mb * unit)
