"""Looks for cheaper plans of a pool that is inside its band already: a few brokers at a time are planned anew.

Exchanges reach the band, but one at a time: brokers that would do with fewer moves together are not seen. Here
neighbourhoods are drawn around moves, expensive ones more often. Most plans of a pool that differ by few bundles cost
the same, so prices are shaken a little at each draw: the search then walks on where it would stand still, and the
cheapest plan on its way is the answer. The draw is seeded, so the same pool gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from evenkeel.planning.arrays import Floats, Ints
from evenkeel.planning.search.neighbourhood import Effort, replan
from evenkeel.planning.search.placement import Placement

SEED = 20_260_000
# A pool is worth the work while its plan costs this many times what had to leave, and is small enough for it.
NEAR_ENOUGH = 1.06
MOST_CHOICES = 100_000
# How much more than its price a bundle may seem to cost in the first draw; it gets less from draw to draw.
SHAKE = 0.3
# What a broker without moves to or from the neighbourhood counts for, against one with a single such move.
STRANGER = 0.3


@dataclass(frozen=True, slots=True)
class Walk:
    """How many brokers are planned anew together, how hard each time, and how often for each broker of the pool."""

    together: int
    effort: Effort
    draws_per_broker: int


# Where a neighbourhood is most of the pool, nothing fits easily: a large program takes seconds there, and pairs do.
SMALL_POOL_BROKERS = 8
SMALL_POOL = Walk(together=2, effort=Effort(columns=100, nodes=10, attempts=1), draws_per_broker=4)
LARGE_POOL = Walk(together=5, effort=Effort(columns=400, nodes=50, attempts=1), draws_per_broker=8)


def improve(placement: Placement, prices: Floats, least_price: float, has_time: Callable[[], bool]) -> bool:
    """Plan drawn neighbourhoods anew until the plan is near the least price; false where time ran out."""
    members = np.flatnonzero(placement.takes_part)
    choices = len(members) * int(np.count_nonzero(placement.free))
    if placement.shortfall() or choices > MOST_CHOICES or len(members) < SMALL_POOL.together:
        return True
    walk = SMALL_POOL if len(members) <= SMALL_POOL_BROKERS else LARGE_POOL
    draw = np.random.default_rng(SEED)
    best_price, best_owner = placement.price(prices), placement.owner.copy()
    is_done = True
    for shake in np.linspace(SHAKE, 0.0, walk.draws_per_broker * len(members)):
        if best_price <= NEAR_ENOUGH * least_price:
            break
        if not has_time():
            is_done = False
            break
        shaken = prices * draw.uniform(1.0, 1.0 + shake, len(prices))
        replan(placement, shaken, _draw_neighbourhood(placement, prices, members, walk.together, draw), walk.effort)
        if (price := placement.price(prices)) < best_price:
            best_price, best_owner = price, placement.owner.copy()
    placement.restore(best_owner)
    return is_done


def _draw_neighbourhood(
    placement: Placement, prices: Floats, members: Ints, together: int, draw: np.random.Generator
) -> Ints:
    """Where a drawn bundle came from and where it went, and brokers that moves tie to these."""
    first, now = placement.problem.owner, placement.owner
    moved = np.flatnonzero(now != first)
    ties = np.zeros((len(placement.used), len(placement.used)))
    np.add.at(ties, (first[moved], now[moved]), 1.0)
    ties += ties.T
    row = int(draw.choice(moved, p=prices[moved] / prices[moved].sum()))
    drawn = np.intersect1d(members, [first[row], now[row]])
    while len(drawn) < together:
        others = np.setdiff1d(members, drawn)
        weight = STRANGER + ties[np.ix_(drawn, others)].sum(axis=0)
        drawn = np.append(drawn, draw.choice(others, p=weight / weight.sum()))
    neighbourhood: Ints = np.sort(drawn)
    return neighbourhood
