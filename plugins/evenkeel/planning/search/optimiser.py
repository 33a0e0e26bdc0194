"""Plans one pool.

0. Seat the bundles that no broker can carry inside the band.
1. Choose what leaves: all that may not stay, and from each hot broker the cheapest bundles that bring it below its
   caps in every resource at once.
2. Find new owners, largest first, each time the broker whose room suits the bundle best.
3. Where something found no place, brokers exchange bundles; then drop what turned out not to be needed.
4. Where that does not help, or was expensive, plan a few brokers anew together.

What leaves is chosen at the least price that any plan must pay, broker by broker, so a plan whose second step
succeeds at once cannot be beaten.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from evenkeel.model.settings import Settings
from evenkeel.planning.description import describe
from evenkeel.planning.floors import find_band
from evenkeel.planning.pool_plan import PoolBounds, PoolPlan
from evenkeel.planning.problem import PoolProblem
from evenkeel.planning.search.bounds import bound_moves, find_bounds, find_forced, repairs_all
from evenkeel.planning.search.giants import seat_giants
from evenkeel.planning.search.improving import improve
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.prices import price_bundles
from evenkeel.planning.search.relief import relieve
from evenkeel.planning.search.settling import replan_small_pool, settle
from evenkeel.planning.search.solution import Solution

Certifier = Callable[[Solution], PoolBounds]


def always() -> bool:
    """There is always time: the search ends by itself."""
    return True


def solve(
    problem: PoolProblem,
    settings: Settings,
    has_time: Callable[[], bool] = always,
    unsplit: PoolProblem | None = None,
    certifier: Certifier | None = None,
) -> PoolPlan:
    """Plan a pool, with reasons and certificate; the answer is empty where nothing would get better.

    `unsplit` is the pool before the plan's splits, where it has any: the bounds hold with and without them.
    `certifier` finds the bounds, `certify` unless told.
    """
    solution = search(problem, settings, has_time)
    bounds = (certifier or certify)(solution)
    if unsplit is not None and bounds.moves:
        # Only moves can be fewer without splits: two children that move count twice, but carry what their parent does.
        bounds = replace(bounds, moves=min(bounds.moves, _bound_unsplit_moves(unsplit, solution, settings)))
    return describe(solution, settings, bounds)


def certify(solution: Solution) -> PoolBounds:
    """Bounds for any plan of the pool; they take longer than the plan where it is far from them."""
    placement = solution.placement
    problem = placement.problem
    forced = find_forced(placement, is_shown=repairs_all(placement))
    is_moved = placement.owner != problem.owner
    sessions = int(problem.sessions[is_moved].sum())
    return find_bounds(problem, solution.band, forced, int(is_moved.sum()), sessions)


def _bound_unsplit_moves(unsplit: PoolProblem, solution: Solution, settings: Settings) -> int:
    """The fewest moves of any plan that splits none, some or all of the bundles."""
    band = find_band(unsplit, settings)
    forced = find_forced(Placement(unsplit, band, settings), is_shown=repairs_all(solution.placement))
    return bound_moves(unsplit, band, forced)


def search(problem: PoolProblem, settings: Settings, has_time: Callable[[], bool] = always) -> Solution:
    """Find the placement; `has_time` is asked now and then, and the best so far is the answer once it says no."""
    band = find_band(problem, settings)
    placement = Placement(problem, band, settings)
    prices = price_bundles(problem, placement.cap, settings)
    seat_giants(placement, settings.tolerance)
    least_price = relieve(placement, prices)
    is_done = settle(placement, prices, has_time)
    if is_done and has_time():
        replan_small_pool(placement, prices, least_price)
        is_done = improve(placement, prices, least_price, has_time)
    return Solution(placement, band, truncated=not is_done)
