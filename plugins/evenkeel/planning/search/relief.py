"""Relieves hot brokers: chooses what leaves them, and finds new owners for it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenkeel.planning.arrays import Floats, Ints
from evenkeel.planning.search.departures import choose_departures
from evenkeel.planning.search.exchange import exchange
from evenkeel.planning.search.packing import pack
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.pruning import prune
from evenkeel.planning.search.repairs import place_in_need

# Of the bundles that find no place, so many at most are placed before all others, if they are large: if they take at
# least this part of their owner's cap.
MOST_PLACED_FIRST = 4
LARGE = 0.2


def relieve(placement: Placement, prices: Floats) -> float:
    """Bring hot brokers below their caps, and take bundles from owners that may not keep them.

    Answers the price of the cheapest bundles that could leave, which any plan pays. If all of them find a place,
    nothing is cheaper. If not, brokers exchange bundles until they fit. There are two other ways: let only bundles
    leave that fit somewhere as they are, or give the largest homeless ones a place first, and let others leave
    from there. Which way is best depends on how large the homeless are, so all are tried and the best one stays.
    """
    start = placement.owner.copy()
    leaving = _choose(placement, prices, must_fit=False)
    least_price = float(prices[leaving].sum())
    homeless = _find_places(placement, leaving)
    if not len(homeless):
        return least_price
    best = _finish(placement, prices)
    for must_fit in (True, False):
        placement.restore(start)
        if not must_fit:
            _place_first(placement, homeless)
        _find_places(placement, _choose(placement, prices, must_fit=must_fit))
        best = min(best, _finish(placement, prices), key=lambda found: found.score)
    placement.restore(best.owner)
    return least_price


@dataclass(frozen=True, slots=True)
class _Found:
    """A way that was tried: how good it is, and where it ended."""

    score: tuple[float, float]
    owner: Ints


def _finish(placement: Placement, prices: Floats) -> _Found:
    """Exchange bundles until brokers fit, and drop what was not needed."""
    exchange(placement, prices)
    prune(placement, prices)
    return _Found(placement.score(prices), placement.owner.copy())


def _place_first(placement: Placement, homeless: Ints) -> None:
    """Give large bundles that fit nowhere to the brokers that they overfill the least; others will leave these."""
    problem = placement.problem
    size = (problem.load[homeless] * placement.per_cap[problem.owner[homeless]]).max(axis=1)
    order = np.lexsort((homeless, -size))[:MOST_PLACED_FIRST]
    for row in homeless[order][size[order] >= LARGE].tolist():
        # One that is too small even if all others left it is no place.
        candidates = placement.candidates(row) & (problem.load[row] <= placement.receive_cap).all(axis=1)
        if candidates.any():
            now = np.maximum(placement.used - placement.receive_cap, 0)
            then = np.maximum(placement.used + problem.load[row] - placement.receive_cap, 0)
            # As parts of the bundle itself: it does not matter whose room it is.
            overfill = ((then - now) / np.maximum(problem.load[row], 1)).max(axis=1)
            placement.move(row, int(np.argmin(np.where(candidates, overfill, np.inf))))


def _choose(placement: Placement, prices: Floats, *, must_fit: bool) -> Ints:
    """What leaves: all that may not stay, and what hot brokers let go once that has left."""
    problem = placement.problem
    must_leave = np.flatnonzero(problem.must_move)
    for row in must_leave.tolist():
        placement.lift(row)
    may_leave = placement.free & ~problem.must_move & (placement.owner == problem.owner)
    leaving = choose_departures(placement, prices, may_leave, must_fit=must_fit)
    for row in must_leave.tolist():
        placement.put(row, int(placement.owner[row]))
    return np.sort(np.concatenate([must_leave, leaving]))


def _find_places(placement: Placement, leaving: Ints) -> Ints:
    """Give bundles new owners; answers those that found none inside the band."""
    homeless = pack(placement, leaving)
    place_in_need(placement, homeless[placement.problem.must_move[homeless]])
    return homeless
