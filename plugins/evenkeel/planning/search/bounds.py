"""Lower bounds that hold for any plan that brings a pool into its band, whoever makes it."""

from __future__ import annotations

import math

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.planning.arrays import Ints
from evenkeel.planning.floors import Band
from evenkeel.planning.pool_plan import PoolBounds, vector
from evenkeel.planning.problem import PoolProblem
from evenkeel.planning.search.covering import cover_program
from evenkeel.planning.search.hot_brokers import HotBroker, find_hot_brokers
from evenkeel.planning.search.knapsack import cheapest_part, fewest_bundles
from evenkeel.planning.search.pool_bounds import bound_pool
from evenkeel.planning.search.programs import SOLVER_ERROR, solve_relaxed, solve_whole, whole_bound

# Work budget of the search that proves a broker's bound. Beyond so many bundles in a pool the relaxed program is
# trusted with it, which is nearly as good.
NODES = 60
MOST_SEARCHED_BUNDLES = 200_000


def find_bounds(problem: PoolProblem, band: Band, moves: int, sessions: int) -> PoolBounds:
    """The fewest moves and sessions and the least load that must leave.

    A broker must hand over what may not stay, and bundles enough to get below its caps in every resource at once.
    Different brokers never share a bundle, so their bounds add up. `moves` and `sessions` are those of a plan that
    was found: only where it needs more, the whole pool is looked at, which says what room elsewhere allows.
    """
    forced = np.flatnonzero(problem.must_move)
    hot = find_hot_brokers(problem, band.loose_cap)
    unit = np.ones(len(problem.sessions), dtype=np.int64)
    fewest = len(forced) + sum(_bound_cover(problem, broker, unit) for broker in hot)
    least_sessions = int(problem.sessions[forced].sum())
    least_sessions += sum(_bound_cover(problem, broker, problem.sessions) for broker in hot)
    if moves > fewest:
        fewest = max(fewest, bound_pool(problem, band, unit))
    if sessions > least_sessions:
        least_sessions = max(least_sessions, bound_pool(problem, band, problem.sessions))
    moved = problem.load[forced].sum(axis=0)
    for broker in hot:
        moved = moved + broker.excess
    return PoolBounds(
        moves=fewest,
        sessions=least_sessions,
        moved_load=vector(moved if len(moved) else np.zeros(len(RESOURCES))),
        total_load=vector(problem.load.sum(axis=0)),
        peak_ppb=vector(band.peak_ppb),
    )


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
