"""Puts the plans of all pools together: one budget, one order, one document."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from evenkeel.model.load import MILLI, RESOURCES, SplitCandidate
from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step, StepKind, digest_rows, invert
from evenkeel.model.settings import Settings
from evenkeel.planning.balance import (
    describe_balance,
    describe_bounds,
    describe_disruption,
    describe_gap,
    describe_violations,
)
from evenkeel.planning.disruption import client_milliseconds, hand_over_ms
from evenkeel.planning.pool_plan import PoolPlan, Vector
from evenkeel.planning.selection import (
    STEP_BUDGET,
    ClusterBroker,
    PooledMove,
    Selection,
    collect_brokers,
    loads_after,
    select,
)
from evenkeel.planning.words import percent, resource_name

STRATEGY_VERSION = 1

_WHY_DROPPED = {
    STEP_BUDGET: "the step budget of the settings (max_steps = {budget}) ends before it or a step that it needs",
    "wave-order": "no order of the steps brings it about without a broker going above the overload line on the way",
}


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
    split_candidates: Sequence[SplitCandidate]
    library_version: str


@dataclass(frozen=True, slots=True)
class PlannedCluster:
    """A plan and its tables."""

    plan: Plan
    steps: list[Step]
    rejections: list[Rejection]
    brokers: list[BrokerBalance]


def assemble(pool_plans: Iterable[PoolPlan], context: PlanContext) -> PlannedCluster:
    """Cut the budget, order the steps into waves and draw up the document; the order of the pools does not matter."""
    plans = sorted(pool_plans, key=lambda plan: plan.pool)
    brokers = collect_brokers(plans)
    selection = select(plans, brokers, context.settings)
    moves = [move for wave in selection.waves for move in wave]
    after = loads_after(brokers, moves)
    steps = _steps(selection, brokers, context.settings)
    rejections = _rejections(plans, brokers, selection, after, context)
    rows = _broker_rows(brokers, after)
    balance_before = describe_balance(brokers.values(), {name: broker.used for name, broker in brokers.items()})
    balance_after = describe_balance(brokers.values(), after)
    bounds = describe_bounds(plans, balance_before)
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
        step_counts={"transfers": len(steps), "splits": 0, "unloads": 0},
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows(rejections),
        brokers_sha256=digest_rows(rows),
        inverse_sha256=digest_rows(invert(steps)),
        balance={"before": balance_before, "after": balance_after},
        bounds=bounds,
        gap=describe_gap(steps, plans, bounds, balance_after),
        disruption=describe_disruption(steps),
        violations=describe_violations(plans, brokers, moves),
        truncated=False,
        library_version=context.library_version,
    )
    return PlannedCluster(plan, steps, rejections, rows)


def _steps(selection: Selection, brokers: Mapping[str, ClusterBroker], settings: Settings) -> list[Step]:
    steps: list[Step] = []
    for wave, moves in enumerate(selection.waves):
        for pooled in moves:
            steps.append(_step(len(steps), wave, pooled, brokers, settings))
    return steps


def _step(order: int, wave: int, pooled: PooledMove, brokers: Mapping[str, ClusterBroker], settings: Settings) -> Step:
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
        disruption_client_ms=client_milliseconds(move.sessions, hand_over_ms(StepKind.TRANSFER, settings)),
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
    dropped = [_dropped_move(pooled, rule, context.settings) for pooled, rule in selection.dropped]
    sources = {pooled.source: rule for pooled, rule in selection.dropped}
    hot = [
        rejection
        for name, rule in sorted(sources.items())
        for rejection in _hot_for_lack_of_steps(brokers[name], after[name], rule)
    ]
    # A pool speaks of its brokers as its own plan leaves them; where steps were dropped, the row above is the true one.
    from_pools = [
        row for plan in plans for row in plan.rejections if row.scope != "broker" or row.broker not in sources
    ]
    candidates = [_split_candidate(candidate) for candidate in context.split_candidates]
    return sorted(from_pools + dropped + hot + candidates, key=_rejection_order)


def _rejection_order(row: Rejection) -> tuple[str, ...]:
    return row.pool, row.scope, row.broker or "", row.bundle or "", row.rule, row.detail


def _dropped_move(pooled: PooledMove, rule: str, settings: Settings) -> Rejection:
    why = _WHY_DROPPED[rule].format(budget=settings.max_steps)
    detail = f"its move from {pooled.source} to {pooled.destination} is left out: {why}"
    return Rejection(pooled.pool, "bundle", pooled.move.bundle, pooled.source, rule, detail)


def _hot_for_lack_of_steps(broker: ClusterBroker, used: Vector, rule: str) -> list[Rejection]:
    rows = []
    for index in range(len(RESOURCES)):
        limit, band = broker.limit[index], broker.band_limit[index]
        if broker.pool and limit and used[index] > band:
            detail = (
                f"stays at {percent(used[index], limit)} of its {resource_name(index)} "
                f"(before: {percent(broker.used[index], limit)}), where the band ends at {percent(band, limit)}, "
                "because moves off it are left out"
            )
            rows.append(Rejection(broker.pool, "broker", None, broker.broker_id, rule, detail))
    return rows


def _split_candidate(candidate: SplitCandidate) -> Rejection:
    detail = (
        f"a candidate for a split by {candidate.reason} in {candidate.hits} snapshots in a row "
        f"({candidate.topics} topics, {candidate.sessions} sessions, {round(candidate.msg_rate_per_s * MILLI) / MILLI} "
        f"messages/s, {round(candidate.throughput_bytes_per_s)} bytes/s); this strategy moves bundles whole"
    )
    return Rejection("", "bundle", candidate.bundle, None, "split-candidate", detail)
