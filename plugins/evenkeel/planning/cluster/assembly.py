"""Combines the plans of all pools: one budget, one order, one document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from evenkeel.model.figures import StrategyReplay
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step, StepKind, digest_rows, invert
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.cluster_brokers import (
    ClusterBroker,
    PooledMove,
    collect_brokers,
    collect_moves,
    count_groups,
    loads_after,
)
from evenkeel.planning.cluster.curve import draw_curve
from evenkeel.planning.cluster.figures import (
    count_steps,
    describe_balance,
    describe_bounds,
    describe_disruption,
    describe_gap,
    describe_violations,
)
from evenkeel.planning.cluster.move_reasons import explain_moves
from evenkeel.planning.cluster.omissions import explain_empty_plan, explain_omissions
from evenkeel.planning.cluster.pool_figures import describe_pools
from evenkeel.planning.cluster.selection import PooledSplit, Selection, collect_splits, select
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.problem.columns import Vector
from evenkeel.planning.problem.disruption import pricing_of

STRATEGY_VERSION = 3


@dataclass(frozen=True, slots=True)
class PlanContext:
    """Where a plan comes from, and what it says beyond its pools."""

    cluster: str
    load_manager: str
    snapshot_id: str
    taken_at: datetime
    profile_id: str
    candidates_id: str
    strategy: str
    settings: Settings
    policy_versions: Mapping[str, PolicyVersion | None]
    anti_affinity: Mapping[str, str]
    library_version: str
    counterfactual: Sequence[StrategyReplay] = ()
    findings: Sequence[Rejection] = ()


@dataclass(frozen=True, slots=True)
class PlannedCluster:
    """A plan and its tables."""

    plan: Plan
    steps: list[Step]
    rejections: list[Rejection]
    brokers: list[BrokerBalance]


def assemble(pool_plans: Iterable[PoolPlan], context: PlanContext) -> PlannedCluster:
    """Apply the budgets, order the steps into waves and write the document; the order of the pools does not matter."""
    plans = sorted(pool_plans, key=lambda plan: plan.pool)
    brokers, groups = collect_brokers(plans), count_groups(plans)
    wanted = collect_moves(plans, pricing_of(context.load_manager, context.settings))
    selection = select(wanted, brokers, groups, context.settings, collect_splits(plans))
    moves = selection.moves
    after = loads_after(brokers, moves)
    reasons = explain_moves(plans, brokers, groups, selection, after, context.settings)
    steps = _steps(selection, brokers, reasons)
    rejections = _rejections(plans, brokers, selection, after, context)
    rows = _broker_rows(brokers, after)
    limits = {name: broker.limit for name, broker in brokers.items()}
    before = {name: broker.used for name, broker in brokers.items()}
    balance = describe_balance(limits, before, after)
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
        anti_affinity=dict(context.anti_affinity),
        expires_at=context.taken_at + timedelta(seconds=context.settings.plan_expires_after_s),
        step_counts=count_steps(steps),
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows(rejections),
        brokers_sha256=digest_rows(rows),
        inverse_sha256=digest_rows(invert(steps)),
        balance=balance,
        bounds=bounds,
        gap=describe_gap(steps, plans, bounds, balance),
        disruption=describe_disruption(steps),
        violations=describe_violations(plans, brokers, groups, moves),
        curve=draw_curve(steps, brokers, context.settings),
        pools=describe_pools(plans, moves, brokers, after, context.settings),
        counterfactual=tuple(context.counterfactual),
        truncated=any(plan.truncated for plan in plans),
        library_version=context.library_version,
    )
    return PlannedCluster(plan, steps, rejections, rows)


def _steps(selection: Selection, brokers: Mapping[str, ClusterBroker], reasons: Mapping[str, str]) -> list[Step]:
    steps: list[Step] = []
    for wave, splits in enumerate(selection.splits.waves):
        for split in splits:
            steps.append(_split_step(len(steps), wave, split, brokers))
    for wave, moves in enumerate(selection.waves, start=len(selection.splits.waves)):
        for pooled in moves:
            steps.append(_step(len(steps), wave, pooled, brokers, reasons[pooled.move.bundle]))
    return steps


def _split_step(order: int, wave: int, pooled: PooledSplit, brokers: Mapping[str, ClusterBroker]) -> Step:
    """A split moves no load and disconnects no client: its topics stay open with the same owner."""
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


def _step(order: int, wave: int, pooled: PooledMove, brokers: Mapping[str, ClusterBroker], reason: str) -> Step:
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
        reason=reason,
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
    omissions = explain_omissions(plans, selection, brokers, after, context.settings)
    cut = {move.pool for move, _ in selection.dropped} | {split.pool for split, _ in selection.splits.dropped}
    from_pools = [
        row
        for plan in plans
        for row in (*plan.refusals.lasting, *(plan.refusals.if_cut if plan.pool in cut else plan.refusals.if_whole))
    ]
    rows = from_pools + omissions
    if not rows and not selection.waves and not selection.splits.waves:
        rows.append(explain_empty_plan(plans, brokers.values()))
    return sorted([*rows, *context.findings], key=_rejection_order)


def _rejection_order(row: Rejection) -> tuple[str, ...]:
    return row.pool, row.scope, row.broker or "", row.bundle or "", row.rule, row.detail
