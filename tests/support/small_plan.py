"""A plan for the small cluster: one bundle of the hot broker goes to the idle one.

b01  60 → 40 MB/s      b02  20 MB/s      b03  10 → 30 MB/s      band to 42 MB/s of 125
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from evenkeel.model.load import RESOURCES, Resource
from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step
from evenkeel.model.settings import Settings
from support.small_cluster import B01, B02, B03, MEGABYTE, TAKEN_AT, manifest

FIRST = "shop/orders/0x00000000_0x40000000"
MOVED_MB = 20
BAND_MB = 42
LIMIT_MB = 125
SETTINGS = Settings(tolerance=0.4)
# The cpu of the small cluster: 1,000 thousandths of a percent a MB/s, of 400 %.
CPU_PER_MB, CPU_LIMIT = 1_000, 400_000


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
    spread = {str(r): {"mean": 0.24, "max": 0.48, "std": 0.1, "max_over_mean": 2.0} for r in RESOURCES}
    evened = {str(r): {"mean": 0.24, "max": 0.32, "std": 0.05, "max_over_mean": 1.333} for r in RESOURCES}
    made = Plan(
        cluster="fleet",
        load_manager="extensible",
        snapshot_id=manifest().snapshot_id,
        profile_id="profile",
        candidates_id="candidates",
        strategy="certified",
        strategy_version=1,
        settings=SETTINGS.to_json(),
        policy_versions={"/admin/policies/shop/orders": 3},
        expires_at=TAKEN_AT + timedelta(hours=4),
        step_counts={"transfers": 1, "splits": 0, "unloads": 0},
        steps_sha256="1" * 64,
        rejections_sha256="2" * 64,
        brokers_sha256="3" * 64,
        inverse_sha256="4" * 64,
        balance={"before": spread, "after": evened},
        bounds={
            "moves": 1,
            "sessions": 10,
            "moved_share": {str(r): 0.2 for r in RESOURCES},
            "max_over_mean": {str(r): 1.0 for r in RESOURCES},
        },
        gap={
            "moves": 1.0,
            "sessions": 1.0,
            "moved_share": {str(r): 1.0 for r in RESOURCES},
            "max_over_mean": {str(r): 1.333 for r in RESOURCES},
        },
        disruption={"client_seconds": 7.0, "sessions": 10},
        violations={"before": {"misplaced": 0}, "after": {"misplaced": 0}},
        curve=[],
        pools=[],
        counterfactual=[],
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
