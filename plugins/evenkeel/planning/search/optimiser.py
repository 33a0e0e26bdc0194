"""Search for a pool's new placement.

0. Place the bundles that are too large for every broker's band.
1. Choose what leaves: every bundle whose owner may not keep it, and from each hot broker the cheapest bundles that
   bring it below its caps in every resource at once.
2. Find new owners, largest bundle first, on the broker whose free capacity suits the bundle best.
3. If some bundles found no owner, let brokers exchange bundles; then undo moves that turned out to be unnecessary.
4. If brokers are still hot, or the plan is expensive, replan a few brokers together with an integer program.

Step 1 pays the least price that any plan has to pay, broker by broker. If step 2 places everything at once, no plan is
cheaper.
"""

from __future__ import annotations

from collections.abc import Callable

from evenkeel.model.settings import Settings
from evenkeel.planning.problem.band import find_band
from evenkeel.planning.problem.problem import PoolProblem
from evenkeel.planning.search.placement import Placement, Solution
from evenkeel.planning.search.prices import price_bundles
from evenkeel.planning.search.relief import place_oversized, relieve
from evenkeel.planning.search.replanning import improve, replan_hot_brokers, replan_small_pool


def always() -> bool:
    """The deadline of a search without one: there is always time left."""
    return True


def search(problem: PoolProblem, settings: Settings, has_time: Callable[[], bool] = always) -> Solution:
    """Find a placement. `has_time` is polled between steps; once it is false, the best placement so far is returned."""
    band = find_band(problem, settings)
    placement = Placement(problem, band, settings)
    prices = price_bundles(problem, placement.cap, settings)
    place_oversized(placement, settings.tolerance)
    least_price = relieve(placement, prices)
    is_done = replan_hot_brokers(placement, prices, has_time)
    if is_done and has_time():
        replan_small_pool(placement, prices, least_price)
        is_done = improve(placement, prices, least_price, has_time)
    return Solution(placement, band, truncated=not is_done)
