"""Lower bounds that hold for any plan that brings a pool into its band, whoever makes it."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.planning.anti_affinity import NO_GROUP
from evenkeel.planning.arrays import Bools, Ints
from evenkeel.planning.floors import Band, certain_peaks
from evenkeel.planning.pool_plan import PoolBounds, vector
from evenkeel.planning.problem import PoolProblem
from evenkeel.planning.search.covering import cover_program
from evenkeel.planning.search.hot_brokers import HotBroker, find_hot_brokers
from evenkeel.planning.search.knapsack import cheapest_part, fewest_bundles
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.pool_bounds import bound_pool
from evenkeel.planning.search.programs import SOLVER_ERROR, solve_relaxed, solve_whole, whole_bound

# Work budget of the search that proves a broker's bound. Beyond so many bundles in a pool the relaxed program is
# trusted with it, which is nearly as good.
NODES = 60
MOST_SEARCHED_BUNDLES = 200_000


def find_bounds(problem: PoolProblem, band: Band, forced: Bools, moves: int, sessions: int) -> PoolBounds:
    """The fewest moves and sessions and the least load that must leave.

    A broker must hand over what is `forced` to leave, and bundles enough to get below its caps in every resource at
    once. Different brokers never share a bundle, so their bounds add up. `moves` and `sessions` are those of a plan
    that was found: only where it needs more, the whole pool is looked at, which says what room elsewhere allows.
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
    """The fewest moves, broker by broker: also for any plan that cuts bundles first, for parts cover no more."""
    unit = np.ones(len(problem.sessions), dtype=np.int64)
    return _bound_brokers(problem, find_hot_brokers(problem, band.loose_cap), forced, unit)


def repairs_all(placement: Placement) -> bool:
    """Whether every bundle has left its owner that must."""
    problem = placement.problem
    return bool((placement.owner != problem.owner)[problem.must_move].all())


def find_forced(placement: Placement, *, is_shown: bool) -> Bools:
    """The bundles that any plan moves which repairs what it can.

    `is_shown` says that a plan is known which moves all that must. If none is, only those count that no rule can keep.
    """
    return _ungrouped(placement.problem) if is_shown else _find_certain_repairs(placement)


def _ungrouped(problem: PoolProblem) -> Bools:
    """The bundles that must move and are in no group: a group may keep its bundles back, of other pools as well."""
    ungrouped: Bools = problem.must_move & (problem.group == NO_GROUP)
    return ungrouped


def _find_certain_repairs(placement: Placement) -> Bools:
    """Of the bundles that must move those that find a broker in any case, wherever the others of them go.

    Let the others fill up those brokers that have the least to spare, in each resource and in topics, as if they had
    to be there for this resource alone. If a broker is left all the same, no rule can keep the bundle back.
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
        # What has to arrive at a broker until the largest of these bundles has no room there any more.
        until_full = np.clip(room[receivers] - size[rows].max(axis=0) + 1, 0, others + 1)
        most_full = (np.cumsum(np.sort(until_full, axis=0), axis=0) <= others).sum()
        certain[rows] = most_full < len(receivers)
    return certain


def _bound_brokers(problem: PoolProblem, hot: Sequence[HotBroker], forced: Bools, price: Ints) -> int:
    """The least price of what is forced to leave, and of what hot brokers hand over once it has left."""
    return int(price[forced].sum()) + sum(_bound_cover(problem, broker, price) for broker in hot)


def _bound_cover(problem: PoolProblem, hot: HotBroker, price: Ints) -> int:
    """The least price of bundles that cover what has to leave a broker, in all resources at once."""
    needs = np.flatnonzero(hot.excess)
    load, prices = problem.load[hot.bundles][:, needs], price[hot.bundles]
    bound = 0
    for place, excess in enumerate(hot.excess[needs].tolist()):
        # So many must leave, whichever: at least the cheapest so many.
        fewest = fewest_bundles(load[:, place], excess)
        bound = max(bound, cheapest_part(load[:, place], prices, excess), int(np.sort(prices)[:fewest].sum()))
    # A little less than all is asked for, so that the solver's rounding cannot lift the bound.
    share = np.minimum(load / (hot.excess[needs] * (1 - SOLVER_ERROR)), 1.0)
    program = cover_program(prices.astype(np.float64), share, np.ones(len(needs)))
    if len(problem.bundles) > MOST_SEARCHED_BUNDLES:
        relaxed = solve_relaxed(program)
        found = -math.inf if relaxed is None else relaxed.value
    else:
        found = solve_whole(program, NODES).bound
    return max(bound, whole_bound(found))
