"""Plans one pool: repair what may not stay, relieve what is too hot, drop what was not needed."""

from __future__ import annotations

from collections import Counter

import numpy as np

from evenkeel.model.settings import Settings
from evenkeel.planning.arrays import UNLIMITED, Ints
from evenkeel.planning.bounds import find_bounds
from evenkeel.planning.exchange import exchange
from evenkeel.planning.floors import Band, find_band, overload_caps
from evenkeel.planning.merging import merge
from evenkeel.planning.overload import relieve_overloaded
from evenkeel.planning.placement import Placement
from evenkeel.planning.pool_plan import BrokerLoad, GroupCount, Move, PoolPlan, vector
from evenkeel.planning.problem import PoolProblem
from evenkeel.planning.pruning import prune
from evenkeel.planning.refusals import explain_refusals
from evenkeel.planning.relief import relieve
from evenkeel.planning.repairs import repair
from evenkeel.planning.words import explain_move

PPB = 1_000_000_000


def solve(problem: PoolProblem, settings: Settings) -> PoolPlan:
    """Plan a pool; the answer is empty where nothing would get better."""
    band = find_band(problem, settings)
    placement = Placement(problem, band, settings)
    unrepaired = repair(placement)
    repaired = placement.owner.copy()
    _balance(placement)
    if not _is_better(placement, repaired):
        placement = _placement_with(problem, band, settings, repaired)
    moved = np.flatnonzero(placement.owner != problem.owner)
    return PoolPlan(
        pool=problem.pool,
        brokers=_broker_loads(problem, band, overload_caps(problem.limit, settings)),
        moves=tuple(_describe(placement, band, int(row)) for row in moved),
        rejections=tuple(explain_refusals(placement, band, unrepaired)),
        bounds=find_bounds(problem, band),
        group_counts=_count_groups(problem),
        misplaced=int(problem.is_misplaced.sum()),
        to_be_emptied=int(problem.must_be_emptied[problem.owner].sum()),
    )


def _balance(placement: Placement) -> None:
    relieve(placement)
    exchange(placement)
    if relieve_overloaded(placement):
        relieve(placement)
        exchange(placement)
    prune(placement)
    merge(placement)


def _is_better(placement: Placement, repaired: Ints) -> bool:
    """Whether balancing left less above the caps than the repairs alone."""
    problem = placement.problem
    after = placement.total_overload()
    above = np.maximum(problem.used(repaired) - placement.cap, 0) / placement.scale
    return after < float(above[placement.takes_part].sum())


def _placement_with(problem: PoolProblem, band: Band, settings: Settings, owner: Ints) -> Placement:
    placement = Placement(problem, band, settings)
    for row in np.flatnonzero(owner != problem.owner).tolist():
        placement.move(row, int(owner[row]))
    return placement


def _broker_loads(problem: PoolProblem, band: Band, line: Ints) -> tuple[BrokerLoad, ...]:
    used = problem.used(problem.owner)
    return tuple(
        BrokerLoad(
            broker_id=broker_id,
            incarnation=problem.incarnations[row],
            domain=problem.domains[row],
            is_member=bool(problem.is_member[row]),
            limit=vector(problem.limit[row]),
            band_limit=vector(np.where(band.cap[row] < UNLIMITED, band.cap[row], 0)),
            overload_limit=vector(np.where(line[row] < UNLIMITED, line[row], 0)),
            used=vector(used[row]),
        )
        for row, broker_id in enumerate(problem.broker_ids)
    )


def _describe(placement: Placement, band: Band, row: int) -> Move:
    problem = placement.problem
    source, destination = int(problem.owner[row]), int(placement.owner[row])
    return Move(
        bundle=problem.bundles[row],
        source=source,
        destination=destination,
        version_id=problem.version_ids[row],
        load=vector(problem.load[row]),
        topics=int(problem.topics[row]),
        sessions=int(problem.sessions[row]),
        group=problem.groups[row],
        leaves_forbidden_owner=bool(problem.is_misplaced[row]),
        leaves_emptied_owner=bool(problem.must_be_emptied[source]),
        leaves_overloaded_owner=bool((placement.used_before[source] > placement.line[source]).any()),
        benefit_ppb=_benefit(placement, row, source),
        reason=explain_move(placement, band, row),
    )


def _benefit(placement: Placement, row: int, source: int) -> int:
    """How much of its source's excess a move takes away, in parts per billion of the cap; 0 for the others."""
    if not placement.takes_part[source]:
        return 0
    excess = np.maximum(placement.used_before[source] - placement.cap[source], 0)
    return int((np.minimum(excess, placement.problem.load[row]) / placement.scale[source]).sum() * PPB)


def _count_groups(problem: PoolProblem) -> tuple[GroupCount, ...]:
    counts = Counter((group, int(owner)) for group, owner in zip(problem.groups, problem.owner, strict=True) if group)
    return tuple(GroupCount(group, owner, count) for (group, owner), count in sorted(counts.items()))
