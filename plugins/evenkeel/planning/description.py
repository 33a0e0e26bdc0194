"""Turns a placement into a pool's plan: moves with reasons, what was refused, and the figures that others add up."""

from __future__ import annotations

import numpy as np

from evenkeel.model.settings import Settings
from evenkeel.planning.anti_affinity import NO_GROUP
from evenkeel.planning.arrays import UNLIMITED, Ints
from evenkeel.planning.explaining.advice import summarise_pool
from evenkeel.planning.explaining.refusals import explain_refusals
from evenkeel.planning.explaining.words import explain_moves
from evenkeel.planning.floors import PPB, Band, overload_caps
from evenkeel.planning.largest_loads import largest_loads
from evenkeel.planning.pool_plan import BrokerLoad, GroupCount, Move, PoolBounds, PoolPlan, vector
from evenkeel.planning.problem import PoolProblem
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.solution import Solution


def describe(solution: Solution, settings: Settings, bounds: PoolBounds) -> PoolPlan:
    """Say what a solution does, and why."""
    placement, band = solution.placement, solution.band
    problem = placement.problem
    return PoolPlan(
        pool=problem.pool,
        brokers=_broker_loads(placement, band, overload_caps(problem.limit, settings)),
        moves=_moves(placement, settings),
        rejections=tuple(explain_refusals(placement, band, solution.unrepaired)),
        bounds=bounds,
        group_counts=_count_groups(problem),
        misplaced=int(problem.is_misplaced.sum()),
        to_be_emptied=int(problem.must_be_emptied[problem.owner].sum()),
        bundles=len(problem.bundles),
        summary=summarise_pool(placement, band, settings),
        truncated=solution.truncated,
    )


def _broker_loads(placement: Placement, band: Band, line: Ints) -> tuple[BrokerLoad, ...]:
    problem = placement.problem
    # Where a bundle sits that no band could hold, the aim is higher.
    cap = np.maximum(band.cap, placement.cap)
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
            band_limit=vector(np.where(cap[row] < UNLIMITED, cap[row], 0)),
            overload_limit=vector(np.where(line[row] < UNLIMITED, line[row], 0)),
            used=vector(used[row]),
            topics=int(topics[row]),
            largest=largest[row],
        )
        for row, broker_id in enumerate(problem.broker_ids)
    )


def _moves(placement: Placement, settings: Settings) -> tuple[Move, ...]:
    problem = placement.problem
    moved = np.flatnonzero(placement.owner != problem.owner)
    benefits = _benefits(placement, moved, problem.owner[moved])
    reasons = explain_moves(placement, moved, settings)
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
            reason=reason,
        )
        for row, benefit, reason in zip(moved.tolist(), benefits.tolist(), reasons, strict=True)
    )


def _benefits(placement: Placement, moved: Ints, source: Ints) -> Ints:
    """How much of its source's excess each move takes away, in parts per billion of the cap; 0 where there is none."""
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
