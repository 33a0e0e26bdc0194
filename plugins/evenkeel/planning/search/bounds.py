"""Lower bounds for every plan that brings a pool into its band, whoever makes it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import coo_array

from evenkeel.model.load import RESOURCES
from evenkeel.planning.problem.anti_affinity import NO_GROUP
from evenkeel.planning.problem.band import Band, certain_peaks
from evenkeel.planning.problem.columns import UNLIMITED, Bools, Floats, Ints, Vector, vector
from evenkeel.planning.problem.problem import PoolProblem
from evenkeel.planning.search.hot_brokers import (
    HotBroker,
    cheapest_part,
    cover_program,
    fewest_bundles,
    find_hot_brokers,
)
from evenkeel.planning.search.placement import Placement, Solution
from evenkeel.planning.search.programs import SOLVER_ERROR, Program, solve_relaxed, solve_whole, whole_bound

# Work budget of the search that proves a broker's bound. In a pool of more bundles than this, the bound of the relaxed
# program is used instead, which is nearly as good.
NODES = 60
MOST_SEARCHED_BUNDLES = 200_000
# A pool with more choices of a new owner than this is too large to prove much in reasonable time.
MOST_CHOICES = 5_000
# The solver reports no bound before it has found a solution; then the search is repeated with more nodes.
POOL_NODES = (20, 400)
RESOURCE_COUNT = len(RESOURCES)


@dataclass(frozen=True, slots=True)
class PoolBounds:
    """Lower bounds for every plan of a pool, as integers that add up over pools."""

    moves: int
    sessions: int
    moved_load: Vector
    total_load: Vector
    peak_ppb: Vector


def certify(solution: Solution) -> PoolBounds:
    """Find bounds for every plan of the pool. This takes longer than the search if the solution is far from them."""
    placement = solution.placement
    problem = placement.problem
    forced = find_forced(placement, is_shown=repairs_all(placement))
    is_moved = placement.owner != problem.owner
    sessions = int(problem.sessions[is_moved].sum())
    return find_bounds(problem, solution.band, forced, int(is_moved.sum()), sessions)


def find_bounds(problem: PoolProblem, band: Band, forced: Bools, moves: int, sessions: int) -> PoolBounds:
    """Find the fewest moves and sessions, and the least load, that have to move.

    A broker has to give up the bundles that are `forced` to leave, and enough others to get below its caps in every
    resource at once. Brokers never share a bundle, so their bounds add up. `moves` and `sessions` are those of a known
    plan: only if it needs more than the bound, the whole pool is examined, which also takes into account where the
    bundles could go.
    """
    hot = find_hot_brokers(problem, band.loose_cap)
    unit = np.ones(len(problem.sessions), dtype=np.int64)
    fewest = _bound_brokers(problem, hot, forced, unit)
    least_sessions = _bound_brokers(problem, hot, forced, problem.sessions)
    if moves > fewest:
        fewest = max(fewest, bound_pool(problem, band, forced, unit))
    if sessions > least_sessions:
        least_sessions = max(least_sessions, bound_pool(problem, band, forced, problem.sessions))
    moved = problem.load[forced].sum(axis=0)
    for broker in hot:
        moved = moved + broker.excess
    return PoolBounds(
        moves=fewest,
        sessions=least_sessions,
        moved_load=vector(moved if len(moved) else np.zeros(len(RESOURCES))),
        total_load=vector(problem.load.sum(axis=0)),
        peak_ppb=vector(certain_peaks(problem, forced)),
    )


def bound_moves(problem: PoolProblem, band: Band, forced: Bools) -> int:
    """The fewest moves, broker by broker. Also valid for plans that split bundles first: parts cover no more load."""
    unit = np.ones(len(problem.sessions), dtype=np.int64)
    return _bound_brokers(problem, find_hot_brokers(problem, band.loose_cap), forced, unit)


def bound_moves_without_splits(unsplit: Placement, band: Band, solution: Solution) -> int:
    """The fewest moves of any plan that splits none, some or all of the bundles of the undivided pool."""
    forced = find_forced(unsplit, is_shown=repairs_all(solution.placement))
    return bound_moves(unsplit.problem, band, forced)


def repairs_all(placement: Placement) -> bool:
    """Whether every bundle that must move has left its owner."""
    problem = placement.problem
    return bool((placement.owner != problem.owner)[problem.must_move].all())


def find_forced(placement: Placement, *, is_shown: bool) -> Bools:
    """Find the bundles that every plan moves if it repairs what it can.

    `is_shown` means that a plan is known that moves every bundle that must move. Otherwise only bundles count that no
    rule can hold back.
    """
    return _ungrouped(placement.problem) if is_shown else _find_certain_repairs(placement)


def _ungrouped(problem: PoolProblem) -> Bools:
    """Bundles that must move and are in no anti-affinity group, because a group can hold its bundles back."""
    ungrouped: Bools = problem.must_move & (problem.group == NO_GROUP)
    return ungrouped


def _find_certain_repairs(placement: Placement) -> Bools:
    """Find the bundles that must move and find a broker in any case, wherever the others go.

    Assume that the others fill the brokers with the least free capacity, in each resource and in topics, as if they
    were there for that resource alone. If a broker remains even then, no rule can hold the bundle back.
    """
    problem = placement.problem
    certain = _ungrouped(problem)
    topics = np.bincount(problem.owner, problem.topics, len(problem.broker_ids)).astype(np.int64)
    load_room = np.maximum(placement.line - placement.used_before, 0)
    room = np.column_stack([load_room, placement.topic_limit - 1 - topics])
    size = np.column_stack([problem.load, problem.topics])
    total = size[problem.must_move].sum(axis=0)
    for kind in np.unique(problem.eligibility_class[certain]).tolist():
        rows = np.flatnonzero(certain & (problem.eligibility_class == kind))
        receivers = np.flatnonzero(problem.eligible[kind] & problem.can_receive)
        others = total - size[rows].min(axis=0)
        # How much has to arrive at a broker before the largest of these bundles no longer fits.
        until_full = np.clip(room[receivers] - size[rows].max(axis=0) + 1, 0, others + 1)
        most_full = (np.cumsum(np.sort(until_full, axis=0), axis=0) <= others).sum()
        certain[rows] = most_full < len(receivers)
    return certain


def _bound_brokers(problem: PoolProblem, hot: Sequence[HotBroker], forced: Bools, price: Ints) -> int:
    """The least price of the bundles that are forced to leave, and of what hot brokers give up after that."""
    return int(price[forced].sum()) + sum(_bound_cover(problem, broker, price) for broker in hot)


def _bound_cover(problem: PoolProblem, hot: HotBroker, price: Ints) -> int:
    """The least price of bundles that cover a broker's excess in all resources at once."""
    needs = np.flatnonzero(hot.excess)
    load, prices = problem.load[hot.bundles][:, needs], price[hot.bundles]
    bound = 0
    for place, excess in enumerate(hot.excess[needs].tolist()):
        # At least this many must leave, so at least as many of the cheapest.
        fewest = fewest_bundles(load[:, place], excess)
        bound = max(bound, cheapest_part(load[:, place], prices, excess), int(np.sort(prices)[:fewest].sum()))
    # Ask for slightly less than the excess, so that the solver's rounding cannot lift the bound.
    share = np.minimum(load / (hot.excess[needs] * (1 - SOLVER_ERROR)), 1.0)
    program = cover_program(prices.astype(np.float64), share, np.ones(len(needs)))
    if len(problem.bundles) > MOST_SEARCHED_BUNDLES:
        relaxed = solve_relaxed(program)
        found = -math.inf if relaxed is None else relaxed.value
    else:
        found = solve_whole(program, NODES).bound
    return max(bound, whole_bound(found))


def bound_pool(problem: PoolProblem, band: Band, forced: Bools, price: Ints) -> int:
    """The least price of moves that bring the pool into its band; 0 if the pool is too large to tell.

    `forced` are the bundles that every plan moves. Every bundle may go to every broker that may receive it. Rules that
    could forbid more (anti-affinity, topics, exclusions) are left out, which can only lower the bound.
    """
    if not len(problem.bundles) or len(problem.bundles) * int(problem.can_receive.sum()) > MOST_CHOICES:
        return 0
    may_own = problem.destinations(np.arange(len(problem.bundles)))
    may_own[np.arange(len(problem.bundles)), problem.owner] = False
    row, target = np.nonzero(may_own)
    if not len(row):
        return 0
    program = _build_program(problem, band, forced, price, row, target)
    bounds = (solve_whole(program, nodes).bound for nodes in POOL_NODES)
    return whole_bound(next(filter(math.isfinite, bounds), -math.inf))


def _build_program(problem: PoolProblem, band: Band, forced: Bools, price: Ints, row: Ints, target: Ints) -> Program:
    brokers, bundles, count = len(problem.broker_ids), len(problem.bundles), len(row)
    is_capped: Bools = (band.loose_cap < UNLIMITED) & (problem.is_member & ~problem.must_be_emptied)[:, None]
    cap = np.maximum(band.loose_cap, 1).astype(np.float64)
    load, source = problem.load[row], problem.owner[row]
    rows, columns, values = [], [], []
    for resource in range(RESOURCE_COUNT):
        for place, sign in ((target, 1.0), (source, -1.0)):
            rows.append(place * RESOURCE_COUNT + resource)
            columns.append(np.arange(count))
            values.append(sign * load[:, resource] / cap[place, resource] * is_capped[place, resource])
    # Each bundle goes to at most one broker, and a forced one to at least one.
    must = forced[row]
    rows += [brokers * RESOURCE_COUNT + row, brokers * RESOURCE_COUNT + bundles + row[must]]
    columns += [np.arange(count), np.flatnonzero(must)]
    values += [np.ones(count), -np.ones(int(must.sum()))]
    room: Floats = np.where(is_capped, (band.loose_cap - problem.used(problem.owner)) / cap, 1.0)
    has_choice = np.isin(np.arange(bundles), row)
    limit = np.concatenate([room.ravel(), np.ones(bundles), np.where(forced & has_choice, -1.0, 0.0)])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    matrix = coo_array(entries, shape=(len(limit), count))
    return Program(price[row].astype(np.float64), matrix.tocsr(), limit, np.ones(count), np.ones(count, dtype=bool))
