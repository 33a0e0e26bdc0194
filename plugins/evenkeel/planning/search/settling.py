"""Helps brokers that stay hot because nothing fits elsewhere: a few brokers at a time are planned anew together."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evenkeel.planning.arrays import Floats, Ints
from evenkeel.planning.search.neighbourhood import Effort, replan
from evenkeel.planning.search.placement import Placement

# A neighbourhood is the hot broker and this many others.
NEIGHBOURS = 7
# How many different neighbourhoods a hot broker is given at most.
NEIGHBOURHOODS = 2

# A pool with no more choices of a new owner than this is planned anew as a whole where the way there was expensive.
SMALL_POOL_CHOICES = 2_500
SMALL_POOL_EFFORT = Effort(columns=800)
# Expensive is what costs this many times what had to leave.
EXPENSIVE = 1.15

HasTime = Callable[[], bool]


def settle(placement: Placement, prices: Floats, has_time: HasTime) -> bool:
    """Plan hot brokers anew, the hottest first, until none is hot or nothing helps; false where time ran out."""
    tries = np.zeros(len(placement.used), dtype=np.int64)
    while (hottest := _hottest(placement, tries)) is not None:
        if not has_time():
            return False
        neighbours = _neighbours(placement, hottest, int(tries[hottest]))
        tries[hottest] += 1
        if not len(neighbours):
            tries[hottest] = NEIGHBOURHOODS
            continue
        together = np.sort(np.append(neighbours, hottest))
        replan(placement, prices, together, Effort())
        if len(together) >= np.count_nonzero(placement.takes_part):
            # That was the whole pool, and no other neighbourhood has more to offer.
            return True
    return True


def _hottest(placement: Placement, tries: Ints) -> int | None:
    """The broker with the most above its cap that has not been tried often enough."""
    above = (placement.excess() * placement.per_cap).max(axis=1, initial=0.0)
    above[tries >= NEIGHBOURHOODS] = 0.0
    return int(np.argmax(above)) if above.any() else None


def _neighbours(placement: Placement, hot: int, attempt: int) -> Ints:
    """The brokers to plan together with a hot one: those with the most room in what it has too much of.

    Only brokers that may own some of its bundles count. Each attempt takes the next ones.
    """
    problem = placement.problem
    classes = np.unique(problem.eligibility_class[placement.owner == hot])
    candidates = problem.eligible[classes].any(axis=0)
    order = placement.roomiest_for(hot)
    in_order: Ints = order[candidates[order]]
    return in_order[attempt * NEIGHBOURS : (attempt + 1) * NEIGHBOURS]


def replan_small_pool(placement: Placement, prices: Floats, least_price: float) -> None:
    """Plan a small pool from its first owners in one program, if what was found is far from the least price."""
    problem = placement.problem
    brokers = np.flatnonzero(placement.takes_part)
    is_small = len(brokers) * np.count_nonzero(placement.free) <= SMALL_POOL_CHOICES
    # Where something stays above its cap, `settle` has tried the same already.
    if not is_small or placement.shortfall() or placement.price(prices) <= EXPENSIVE * least_price:
        return
    found, score = placement.owner.copy(), placement.score(prices)
    placement.restore(np.where(problem.must_move, placement.owner, problem.owner))
    replan(placement, prices, brokers, SMALL_POOL_EFFORT)
    if score <= placement.score(prices):
        placement.restore(found)
