"""What was decided, as figures to log, watch and compare from plan to plan."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from evenkeel.model.plan import Rejection
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.pool.plan import PoolPlan


def count_rules(rejections: Iterable[Rejection]) -> dict[str, int]:
    """How often each rule refused something, sorted by rule."""
    return dict(sorted(Counter(row.rule for row in rejections).items()))


def measure_pool(plan: PoolPlan) -> dict[str, Any]:
    """The figures of one pool's plan, before budgets and waves."""
    return {
        "pool": plan.pool,
        "brokers": sum(broker.is_member for broker in plan.brokers),
        "bundles": plan.bundles,
        "moves": len(plan.moves),
        "splits": len(plan.splits),
        "repairs": sum(move.is_repair for move in plan.moves),
        "bound_moves": plan.bounds.moves,
        "rejections": count_rules((*plan.refusals.lasting, *plan.refusals.if_whole)),
        "truncated": plan.truncated,
    }


def measure_plan(planned: PlannedCluster, pool_plans: Sequence[PoolPlan]) -> dict[str, Any]:
    """The figures of the whole plan, as it will be applied."""
    plan = planned.plan
    return {
        "strategy": plan.strategy,
        "pools": len(pool_plans),
        "bundles": sum(pool.bundles for pool in pool_plans),
        "moves": plan.step_counts.transfers,
        "splits": plan.step_counts.splits,
        "unloads": plan.step_counts.unloads,
        "waves": len({step.wave for step in planned.steps}),
        "bound_moves": plan.bounds and plan.bounds.moves,
        "gap_moves": plan.gap and plan.gap.moves,
        "moved_sessions": plan.disruption.sessions,
        "client_seconds": plan.disruption.client_seconds,
        "rejections": count_rules(planned.rejections),
        "truncated": plan.truncated,
    }
