"""Looks for cheaper plans of a pool that is inside its band already: a few brokers at a time are planned anew.

Exchanges reach the band, but one at a time: three brokers that would do with fewer moves together are not seen. Here
neighbourhoods are drawn around moves, expensive ones more often. The draw is seeded, so the same pool gives the same
plan.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenkeel.planning.arrays import Floats, Ints
from evenkeel.planning.search.neighbourhood import replan
from evenkeel.planning.search.placement import Placement

NEIGHBOURHOOD = 8
COLUMNS = 300
SEED = 20_260_000
# A pool is worth the work while its plan costs this many times what had to leave, and is small enough for it.
NEAR_ENOUGH = 1.06
MOST_CHOICES = 100_000
# Work budget: draws for each broker of the pool; so many in a row that bring nothing are enough.
DRAWS_PER_BROKER = 2
MOST_IDLE_DRAWS = 16


def improve(placement: Placement, prices: Floats, least_price: float, has_time: Callable[[], bool]) -> bool:
    """Plan drawn neighbourhoods anew until the plan is near the least price; false where time ran out."""
    members = np.flatnonzero(placement.takes_part)
    choices = len(members) * int(np.count_nonzero(placement.free))
    # Small pools are left alone: there a neighbourhood is nearly everything, and takes seconds.
    if placement.shortfall() or choices > MOST_CHOICES or len(members) <= NEIGHBOURHOOD:
        return True
    draw = np.random.default_rng(SEED)
    idle = 0
    for _ in range(DRAWS_PER_BROKER * len(members)):
        if placement.price(prices) <= NEAR_ENOUGH * least_price or idle == MOST_IDLE_DRAWS:
            return True
        if not has_time():
            return False
        drawn = _draw_neighbourhood(placement, prices, members, draw)
        idle = 0 if replan(placement, prices, drawn, COLUMNS, attempts=1) else idle + 1
    return True


def _draw_neighbourhood(placement: Placement, prices: Floats, members: Ints, draw: np.random.Generator) -> Ints:
    """Where a drawn bundle came from and where it went, and other brokers of the pool."""
    first = placement.problem.owner
    moved = np.flatnonzero(placement.owner != first)
    row = int(draw.choice(moved, p=prices[moved] / prices[moved].sum()))
    ends = np.intersect1d(members, [first[row], placement.owner[row]])
    others = draw.permutation(np.setdiff1d(members, ends))[: NEIGHBOURHOOD - len(ends)]
    neighbourhood: Ints = np.sort(np.concatenate([ends, others]))
    return neighbourhood
