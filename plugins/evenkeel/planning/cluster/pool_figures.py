"""Describes each pool as the final plan leaves it: its peaks, what limits it, and what would help."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace

from evenkeel.model.figures import PoolDiagnosis, PoolFigures, PoolLimit
from evenkeel.model.load import RESOURCES, Resource
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.cluster_brokers import ClusterBroker, PooledMove
from evenkeel.planning.cluster.figures import DIGITS, gap_of
from evenkeel.planning.explaining.words import count, limit_name, percent, share
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.problem.columns import Vector

# What limits a pool whether or not its moves are kept.
_LASTING_LIMITS = frozenset(
    {PoolLimit.NO_BROKER, PoolLimit.NO_LOAD, PoolLimit.ONE_BROKER, PoolLimit.CAPACITY, PoolLimit.POLICIES}
)


def describe_pools(
    plans: Sequence[PoolPlan],
    moves: Iterable[PooledMove],
    brokers: Mapping[str, ClusterBroker],
    after: Mapping[str, Vector],
    settings: Settings,
) -> tuple[PoolFigures, ...]:
    """Pool by pool its size, its moves against the bound, and how it ends up; `after` is the load of every broker."""
    kept = Counter(move.pool for move in moves)
    return tuple(_describe_pool(plan, kept[plan.pool], brokers, after, settings) for plan in plans)


def _describe_pool(
    plan: PoolPlan, kept: int, brokers: Mapping[str, ClusterBroker], after: Mapping[str, Vector], settings: Settings
) -> PoolFigures:
    members = [brokers[row.broker_id] for row in plan.brokers if row.is_member and not row.is_emptied]
    outside = [broker for broker in members if broker.outside_band(after[broker.broker_id])]
    diagnosis = _diagnose(plan, kept, members, outside, after, settings)
    return PoolFigures(
        **{field.name: getattr(diagnosis, field.name) for field in fields(PoolDiagnosis)},
        pool=plan.pool,
        brokers=sum(row.is_member for row in plan.brokers),
        bundles=plan.bundles,
        moves=kept,
        bound_moves=plan.bounds.moves,
        gap=gap_of(kept, plan.bounds.moves),
        peak_before=_peaks(members, {broker.broker_id: broker.used for broker in members}),
        peak_after=_peaks(members, after),
        reaches_band=not outside and diagnosis.limited_by not in (PoolLimit.NO_BROKER, PoolLimit.NO_REPORT),
    )


def _peaks(members: Iterable[ClusterBroker], used: Mapping[str, Vector]) -> dict[Resource, float]:
    peaks = dict.fromkeys(RESOURCES, 0.0)
    for broker in members:
        for resource, load, limit in zip(RESOURCES, used[broker.broker_id], broker.limit, strict=True):
            if limit:
                peaks[resource] = max(peaks[resource], round(load / limit, DIGITS))
    return peaks


def _diagnose(
    plan: PoolPlan,
    kept: int,
    members: Sequence[ClusterBroker],
    outside: Sequence[ClusterBroker],
    after: Mapping[str, Vector],
    settings: Settings,
) -> PoolDiagnosis:
    """What the pool's own planner found, unless the final plan differs from the pool's."""
    diagnosis, is_cut = plan.diagnosis, kept < len(plan.moves)
    if not plan.bundles or diagnosis.limited_by is PoolLimit.NO_REPORT:
        return diagnosis
    if outside and is_cut:
        return diagnosis if diagnosis.limited_by is PoolLimit.BUDGET else _limited_by_budgets(plan, kept)
    if outside and diagnosis.limited_by in (_LASTING_LIMITS | {PoolLimit.NOTHING}):
        return _limited_by_foreign_load(diagnosis, outside[0], after)
    if outside or diagnosis.limited_by in _LASTING_LIMITS:
        return diagnosis
    more = diagnosis.advice if diagnosis.limited_by is PoolLimit.NOTHING else ()
    advice = _say_how_full(members, after, settings)
    return replace(diagnosis, limited_by=PoolLimit.NOTHING, advice=(advice, *more))


def _limited_by_budgets(plan: PoolPlan, kept: int) -> PoolDiagnosis:
    moves = count(len(plan.moves) - kept, "move")
    advice = (
        f"wider budgets: they, or the order of the steps, leave out {moves} of the {len(plan.moves):,} of this pool"
    )
    return replace(plan.diagnosis, limited_by=PoolLimit.BUDGET, advice=(advice,))


def _limited_by_foreign_load(
    diagnosis: PoolDiagnosis, broker: ClusterBroker, after: Mapping[str, Vector]
) -> PoolDiagnosis:
    load, name = after[broker.broker_id], broker.broker_id
    resource = broker.outside_band(load)[0]
    limit = broker.limit[resource]
    advice = (
        f"moving bundles of other pools off {name}: with them it is at {percent(load[resource], limit)} of its "
        f"{limit_name(resource)}, where the band ends at {percent(broker.band_limit[resource], limit)}"
    )
    return replace(diagnosis, limited_by=PoolLimit.FOREIGN_LOAD, advice=(advice,))


def _say_how_full(members: Sequence[ClusterBroker], after: Mapping[str, Vector], settings: Settings) -> str:
    """The fullest broker after the plan, and how much the load may grow."""
    fullest = max(
        (
            (after[broker.broker_id][index] / limit, broker.broker_id, index)
            for broker in members
            for index, limit in enumerate(broker.limit)
            if limit
        ),
        key=lambda found: (found[0], found[1]),
        default=None,
    )
    if fullest is None or not fullest[0]:
        return "nothing: every broker is inside its band"
    peak, name, resource = fullest
    line = settings.broker_overloaded_threshold_percentage / 100
    growth = max(0, math.floor(100 * (line / peak - 1)))
    return (
        f"nothing: every broker is inside its band; the fullest is {name}, at {share(peak)} of its "
        f"{limit_name(resource)}, and the load may grow by {growth} % before it reaches the overload line of "
        f"{share(line)}"
    )
