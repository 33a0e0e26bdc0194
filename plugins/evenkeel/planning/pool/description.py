"""Describe a solution as a pool's plan: moves with their grounds, rejections, and figures that add up over pools."""

from __future__ import annotations

import numpy as np

from evenkeel.model.settings import Settings
from evenkeel.planning.explaining.advice import diagnose_pool
from evenkeel.planning.explaining.bundle_ranks import collect_grounds, list_receivers
from evenkeel.planning.explaining.refusals import explain_refusals
from evenkeel.planning.pool.plan import BrokerLoad, GroupCount, Move, PoolPlan
from evenkeel.planning.problem.anti_affinity import NO_GROUP
from evenkeel.planning.problem.band import PPB, Band, overload_caps
from evenkeel.planning.problem.columns import UNLIMITED, Ints, Vector, vector
from evenkeel.planning.problem.problem import PoolProblem
from evenkeel.planning.search.bounds import PoolBounds
from evenkeel.planning.search.hot_brokers import largest_loads
from evenkeel.planning.search.placement import Placement, Solution


def describe(solution: Solution, settings: Settings, bounds: PoolBounds) -> PoolPlan:
    """Turn a solution and its bounds into the plan of the pool."""
    placement, band = solution.placement, solution.band
    problem = placement.problem
    return PoolPlan(
        pool=problem.pool,
        brokers=_broker_loads(placement, band, overload_caps(problem.limit, settings)),
        moves=_moves(placement),
        refusals=explain_refusals(placement, band, solution.unrepaired),
        bounds=bounds,
        group_counts=_count_groups(problem),
        misplaced=int(problem.is_misplaced.sum()),
        to_be_emptied=int(problem.must_be_emptied[problem.owner].sum()),
        bundles=len(problem.bundles),
        diagnosis=diagnose_pool(placement, band, settings),
        truncated=solution.truncated,
        receivers=list_receivers(problem),
    )


def _broker_loads(placement: Placement, band: Band, line: Ints) -> tuple[BrokerLoad, ...]:
    problem = placement.problem
    # The search raises the cap of a broker that holds an oversized bundle, which its band does not follow.
    raised = np.maximum(band.cap, placement.cap)
    is_raised = np.logical_or.reduce(raised > band.cap, axis=1)
    used, largest = problem.used(problem.owner), largest_loads(problem, band)
    topics = np.zeros(len(problem.broker_ids), dtype=np.int64)
    np.add.at(topics, problem.owner, problem.topics)
    return tuple(
        BrokerLoad(
            broker_id=broker_id,
            incarnation=problem.incarnations[row],
            domain=problem.domains[row],
            is_member=bool(problem.is_member[row]),
            limit=vector(problem.limit[row]),
            band_limit=_limits(band.cap[row]),
            overload_limit=_limits(line[row]),
            used=vector(used[row]),
            topics=int(topics[row]),
            largest=largest[row],
            balance_limit=_limits(raised[row]) if is_raised[row] else None,
            is_emptied=bool(problem.must_be_emptied[row]),
        )
        for row, broker_id in enumerate(problem.broker_ids)
    )


def _limits(caps: Ints) -> Vector:
    """Caps of one broker; 0 where there is none."""
    return vector(np.where(caps < UNLIMITED, caps, 0))


def _moves(placement: Placement) -> tuple[Move, ...]:
    problem = placement.problem
    moved = np.flatnonzero(placement.owner != problem.owner)
    benefits = _benefits(placement, moved, problem.owner[moved])
    grounds = collect_grounds(placement, moved)
    is_overloaded = np.asarray((placement.used_before > placement.line).any(axis=1))
    return tuple(
        Move(
            bundle=problem.bundles[row],
            source=int(problem.owner[row]),
            destination=int(placement.owner[row]),
            version_id=problem.version_ids[row],
            load=vector(problem.load[row]),
            topics=int(problem.topics[row]),
            sessions=int(problem.sessions[row]),
            group=problem.group_name(row),
            leaves_forbidden_owner=bool(problem.is_misplaced[row]),
            leaves_emptied_owner=bool(problem.must_be_emptied[problem.owner[row]]),
            leaves_overloaded_owner=bool(is_overloaded[problem.owner[row]]),
            benefit_ppb=int(benefit),
            grounds=its_grounds,
        )
        for row, benefit, its_grounds in zip(moved.tolist(), benefits.tolist(), grounds, strict=True)
    )


def _benefits(placement: Placement, moved: Ints, source: Ints) -> Ints:
    """How much of its source's excess each move removes, in parts per billion of the cap; 0 if there is none."""
    excess = np.maximum(placement.used_before - placement.cap, 0)
    excess[~placement.takes_part] = 0
    taken = np.minimum(excess[source], placement.problem.load[moved]) / np.maximum(placement.cap[source], 1)
    benefits: Ints = (taken.sum(axis=1) * PPB).astype(np.int64)
    return benefits


def _count_groups(problem: PoolProblem) -> tuple[GroupCount, ...]:
    grouped = np.flatnonzero(problem.group != NO_GROUP)
    pairs, counts = np.unique(
        np.stack([problem.group[grouped], problem.owner[grouped]], axis=1), axis=0, return_counts=True
    )
    return tuple(
        GroupCount(problem.group_names[group], owner, count)
        for (group, owner), count in sorted(zip(map(tuple, pairs.tolist()), counts.tolist(), strict=True))
    )
