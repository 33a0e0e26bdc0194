"""Puts the plans of all pools together: one budget, one order, one document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step, StepKind, digest_rows, invert
from evenkeel.model.settings import Settings
from evenkeel.planning.balance import (
    describe_balance,
    describe_bounds,
    describe_disruption,
    describe_gap,
    describe_pools,
    describe_violations,
)
from evenkeel.planning.curve import draw_curve
from evenkeel.planning.disruption import pricing_of
from evenkeel.planning.ordering.cluster_brokers import (
    ClusterBroker,
    PooledMove,
    collect_brokers,
    collect_moves,
    count_groups,
    loads_after,
)
from evenkeel.planning.ordering.omissions import explain_empty_plan, explain_omissions
from evenkeel.planning.ordering.selection import Selection, select
from evenkeel.planning.pool_plan import PoolPlan, Vector
from evenkeel.planning.splitting.split_order import PooledSplit, collect_splits

STRATEGY_VERSION = 2


@dataclass(frozen=True, slots=True)
class PlanContext:
    """What a plan says about where it comes from."""

    cluster: str
    load_manager: str
    snapshot_id: str
    taken_at: datetime
    profile_id: str
    candidates_id: str
    strategy: str
    settings: Settings
    policy_versions: Mapping[str, int | None]
    library_version: str
    counterfactual: Sequence[Mapping[str, Any]] = ()
    findings: Sequence[Rejection] = ()


@dataclass(frozen=True, slots=True)
class PlannedCluster:
    """A plan and its tables."""

    plan: Plan
    steps: list[Step]
    rejections: list[Rejection]
    brokers: list[BrokerBalance]


def assemble(pool_plans: Iterable[PoolPlan], context: PlanContext) -> PlannedCluster:
    """Cut the budgets, order the steps into waves and draw up the document; the order of the pools does not matter."""
    plans = sorted(pool_plans, key=lambda plan: plan.pool)
    brokers, groups = collect_brokers(plans), count_groups(plans)
    wanted = collect_moves(plans, pricing_of(context.load_manager, context.settings))
    selection = select(wanted, brokers, groups, context.settings, collect_splits(plans))
    moves = selection.moves
    after = loads_after(brokers, moves)
    steps = _steps(selection, brokers)
    rejections = _rejections(plans, brokers, selection, after, context)
    rows = _broker_rows(brokers, after)
    limits = {name: broker.limit for name, broker in brokers.items()}
    before = {name: broker.used for name, broker in brokers.items()}
    balance_before = describe_balance(limits, before)
    balance_after = describe_balance(limits, after)
    bounds = describe_bounds(plans, limits, before)
    plan = Plan(
        cluster=context.cluster,
        load_manager=context.load_manager,
        snapshot_id=context.snapshot_id,
        profile_id=context.profile_id,
        candidates_id=context.candidates_id,
        strategy=context.strategy,
        strategy_version=STRATEGY_VERSION,
        settings=context.settings.to_json(),
        policy_versions=dict(context.policy_versions),
        expires_at=context.taken_at + timedelta(seconds=context.settings.plan_expires_after_s),
        step_counts=count_steps(steps),
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows(rejections),
        brokers_sha256=digest_rows(rows),
        inverse_sha256=digest_rows(invert(steps)),
        balance={"before": balance_before, "after": balance_after},
        bounds=bounds,
        gap=describe_gap(steps, plans, bounds, balance_after),
        disruption=describe_disruption(steps),
        violations=describe_violations(plans, brokers, groups, moves),
        curve=draw_curve(steps, brokers),
        pools=describe_pools(plans, moves),
        counterfactual=[dict(row) for row in context.counterfactual],
        truncated=any(plan.truncated for plan in plans),
        library_version=context.library_version,
    )
    return PlannedCluster(plan, steps, rejections, rows)


def count_steps(steps: Iterable[Step]) -> dict[str, int]:
    """How many steps of each kind a plan has."""
    kinds = Counter(step.kind for step in steps)
    return {
        "transfers": kinds[StepKind.TRANSFER],
        "splits": kinds[StepKind.SPLIT],
        "unloads": kinds[StepKind.UNLOAD],
    }


def _steps(selection: Selection, brokers: Mapping[str, ClusterBroker]) -> list[Step]:
    steps: list[Step] = []
    for wave, splits in enumerate(selection.splits.waves):
        for split in splits:
            steps.append(_split_step(len(steps), wave, split, brokers))
    for wave, moves in enumerate(selection.waves, start=len(selection.splits.waves)):
        for pooled in moves:
            steps.append(_step(len(steps), wave, pooled, brokers))
    return steps


def _split_step(order: int, wave: int, pooled: PooledSplit, brokers: Mapping[str, ClusterBroker]) -> Step:
    """A split: no load moves, and no client has to reconnect, for the topics stay open with the same owner."""
    return Step(
        order=order,
        wave=wave,
        kind=StepKind.SPLIT.value,
        bundle=pooled.bundle,
        source=pooled.source,
        source_incarnation=brokers[pooled.source].incarnation,
        destination=None,
        destination_incarnation=None,
        expected_version_id=pooled.split.version_id,
        throughput_in_bytes_per_s=0,
        throughput_out_bytes_per_s=0,
        cpu_millipercent=0,
        topics=0,
        sessions=0,
        disruption_client_ms=0,
        reason=pooled.split.reason,
        split_boundary=pooled.split.boundary,
    )


def _step(order: int, wave: int, pooled: PooledMove, brokers: Mapping[str, ClusterBroker]) -> Step:
    move = pooled.move
    cpu, throughput_in, throughput_out = move.load
    return Step(
        order=order,
        wave=wave,
        kind=StepKind.TRANSFER.value,
        bundle=move.bundle,
        source=pooled.source,
        source_incarnation=brokers[pooled.source].incarnation,
        destination=pooled.destination,
        destination_incarnation=brokers[pooled.destination].incarnation,
        expected_version_id=move.version_id,
        throughput_in_bytes_per_s=throughput_in,
        throughput_out_bytes_per_s=throughput_out,
        cpu_millipercent=cpu,
        topics=move.topics,
        sessions=move.sessions,
        disruption_client_ms=pooled.client_ms,
        reason=move.reason,
    )


def _broker_rows(brokers: Mapping[str, ClusterBroker], after: Mapping[str, Vector]) -> list[BrokerBalance]:
    return [
        BrokerBalance(
            broker_id=name,
            pool=broker.pool,
            resource=str(resource),
            limit=broker.limit[index],
            used_before=broker.used[index],
            used_after=after[name][index],
            band_limit=broker.band_limit[index],
        )
        for name, broker in brokers.items()
        for index, resource in enumerate(RESOURCES)
    ]


def _rejections(
    plans: Sequence[PoolPlan],
    brokers: Mapping[str, ClusterBroker],
    selection: Selection,
    after: Mapping[str, Vector],
    context: PlanContext,
) -> list[Rejection]:
    omissions = explain_omissions(selection, brokers, after, context.settings)
    # A pool speaks of its brokers as its own plan leaves them; where steps were dropped, the omissions are right.
    cut_short = {move.source for move, _ in selection.dropped}
    from_pools = [
        row for plan in plans for row in plan.rejections if row.scope != "broker" or row.broker not in cut_short
    ]
    rows = from_pools + omissions
    if not rows and not selection.waves and not selection.splits.waves:
        rows.append(explain_empty_plan(plans, brokers.values()))
    return sorted([*rows, *context.findings], key=_rejection_order)


def _rejection_order(row: Rejection) -> tuple[str, ...]:
    return row.pool, row.scope, row.broker or "", row.bundle or "", row.rule, row.detail
