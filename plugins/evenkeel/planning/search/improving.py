"""Looks for cheaper plans of a pool that is inside its band already: a few brokers at a time are planned anew.

Exchanges reach the band, but one at a time: brokers that would do with fewer moves together are not seen. Here
neighbourhoods are drawn around moves, expensive ones more often. Most plans of a pool that differ by few bundles cost
the same, so prices are shaken a little at each draw: the search then walks on where it would stand still, and the
cheapest plan on its way is the answer. The draw is seeded, so the same pool gives the same plan.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenkeel.planning.arrays import Floats, Ints
from evenkeel.planning.search.neighbourhood import Effort, replan
from evenkeel.planning.search.placement import Placement

NEIGHBOURHOOD = 5
EFFORT = Effort(columns=400, nodes=50, attempts=1)
SEED = 20_260_000
# A pool is worth the work while its plan costs this many times what had to leave, and is small enough for it.
NEAR_ENOUGH = 1.06
MOST_CHOICES = 100_000
# In smaller pools a neighbourhood is nearly everything, and takes seconds.
FEWEST_BROKERS = 9
# Work budget: draws for each broker of the pool; so many in a row that bring nothing are enough.
DRAWS_PER_BROKER = 8
MOST_IDLE_DRAWS = 80
# How much more than its price a bundle may seem to cost in a draw.
SHAKE = 0.2
# What a broker without moves to or from the neighbourhood counts for, against one with a single such move.
STRANGER = 0.3


def improve(placement: Placement, prices: Floats, least_price: float, has_time: Callable[[], bool]) -> bool:
    """Plan drawn neighbourhoods anew until the plan is near the least price; false where time ran out."""
    members = np.flatnonzero(placement.takes_part)
    choices = len(members) * int(np.count_nonzero(placement.free))
    if placement.shortfall() or choices > MOST_CHOICES or len(members) < FEWEST_BROKERS:
        return True
    draw = np.random.default_rng(SEED)
    best_price, best_owner, idle = placement.price(prices), placement.owner.copy(), 0
    is_done = True
    for _ in range(DRAWS_PER_BROKER * len(members)):
        if best_price <= NEAR_ENOUGH * least_price or idle == MOST_IDLE_DRAWS:
            break
        if not has_time():
            is_done = False
            break
        shaken = prices * draw.uniform(1.0, 1.0 + SHAKE, len(prices))
        replan(placement, shaken, _draw_neighbourhood(placement, prices, members, draw), EFFORT)
        idle += 1
        if (price := placement.price(prices)) < best_price:
            best_price, best_owner, idle = price, placement.owner.copy(), 0
    placement.restore(best_owner)
    return is_done


def _draw_neighbourhood(placement: Placement, prices: Floats, members: Ints, draw: np.random.Generator) -> Ints:
    """Where a drawn bundle came from and where it went, and brokers that moves tie to these."""
    first = placement.problem.owner
    moved = np.flatnonzero(placement.owner != first)
    ties = np.zeros((len(placement.used), len(placement.used)))
    np.add.at(ties, (first[moved], placement.owner[moved]), 1.0)
    ties += ties.T + STRANGER
    row = int(draw.choice(moved, p=prices[moved] / prices[moved].sum()))
    drawn = np.intersect1d(members, [first[row], placement.owner[row]])
    while len(drawn) < NEIGHBOURHOOD:
        others = np.setdiff1d(members, drawn)
        weight = ties[np.ix_(drawn, others)].sum(axis=0)
        drawn = np.append(drawn, draw.choice(others, p=weight / weight.sum()))
    neighbourhood: Ints = np.sort(drawn)
    return neighbourhood
