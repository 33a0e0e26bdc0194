"""Helps hot brokers that no single move can help: two brokers exchange bundles, or one takes what the other cannot.

Every step leaves less above the caps in all. A bundle that has moved before costs nothing when it moves on, and gives
its price back when it goes home, so exchanges of newcomers come first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenkeel.planning.anti_affinity import NO_GROUP
from evenkeel.planning.arrays import Bools, Floats, Ints
from evenkeel.planning.search.placement import Placement

# Work budget: bundles of a broker that are looked at, the largest first; partners of a hot broker, the roomiest first;
# and exchanges for each broker of the pool.
MOST_BUNDLES = 96
MOST_PARTNERS = 32
EXCHANGES_PER_BROKER = 10
# What an exchange must bring at least, as a part of a cap: first the bargains, then whatever helps.
LEAST_GAINS = (0.002, 1e-6)
# An exchange is valued by what it brings for its price and this much: small, so that cheap ones come first.
CHEAP = 0.1


@dataclass(frozen=True, slots=True)
class _Exchange:
    """`leaving` goes from a hot broker to a partner; `returning`, if there is one, goes the other way."""

    score: float
    leaving: int
    partner: int
    returning: int | None


def exchange(placement: Placement, prices: Floats) -> None:
    """Exchange bundles until no broker is hot, or no exchange helps, or the work budget is used up."""
    for least_gain in LEAST_GAINS:
        _exchange(placement, prices, least_gain)


def _exchange(placement: Placement, prices: Floats, least_gain: float) -> None:
    """Make exchanges that take off at least so much each."""
    is_stuck = np.zeros(len(placement.used), dtype=bool)
    for _ in range(EXCHANGES_PER_BROKER * len(placement.used)):
        above = (placement.excess() * placement.per_cap).sum(axis=1)
        above[is_stuck] = 0.0
        if not above.any():
            return
        hot = int(np.argmax(above))
        found = _find_exchange(placement, prices, hot, least_gain)
        if found is None:
            is_stuck[hot] = True
            continue
        # Others may have been stuck only for lack of the room that this makes.
        is_stuck[:] = False
        placement.move(found.leaving, found.partner)
        if found.returning is not None:
            placement.move(found.returning, hot)


def _find_exchange(placement: Placement, prices: Floats, hot: int, least_gain: float) -> _Exchange | None:
    """The exchange that takes off the most for its price, over all partners."""
    leaving = _largest(placement, hot)
    partners = placement.roomiest_for(hot)[:MOST_PARTNERS].tolist()
    tried = [_best_with(placement, prices, hot, leaving, partner, least_gain) for partner in partners]
    found = [exchange for exchange in tried if exchange is not None]
    return max(found, key=lambda exchange: (exchange.score, -exchange.leaving, -exchange.partner), default=None)


def _best_with(
    placement: Placement,
    prices: Floats,
    hot: int,
    leaving: Ints,
    partner: int,
    least_gain: float,
) -> _Exchange | None:
    problem = placement.problem
    leaving = leaving[_may_go(placement, leaving, partner)]
    returning = _largest(placement, partner)
    returning = returning[_may_go(placement, returning, hot)]
    if not len(leaving):
        return None
    # The last column stands for nothing in return.
    back = np.vstack([problem.load[returning], np.zeros((1, problem.load.shape[1]), dtype=np.int64)])
    shift = problem.load[leaving][:, None, :] - back[None, :, :]
    above = _above(placement, hot, placement.used[hot] - shift)
    above += _above(placement, partner, placement.used[partner] + shift)
    now = _above(placement, hot, placement.used[hot]) + _above(placement, partner, placement.used[partner])
    price = _prices_to(placement, prices, leaving, partner)[:, None] + np.append(
        _prices_to(placement, prices, returning, hot), 0.0
    )
    gain = now - above
    score = np.where(gain > least_gain, gain / (CHEAP + np.maximum(price, 0.0)), -np.inf)
    row, column = divmod(int(np.argmax(score)), score.shape[1])
    if not np.isfinite(score[row, column]):
        return None
    return _Exchange(
        float(score[row, column]),
        int(leaving[row]),
        partner,
        int(returning[column]) if column < len(returning) else None,
    )


def _above(placement: Placement, broker: int, used: Ints) -> Floats:
    """How much of a load is above a broker's caps, in parts of the caps, added up over the resources."""
    above: Floats = (np.maximum(used - placement.receive_cap[broker], 0) * placement.per_cap[broker]).sum(axis=-1)
    return above


def _largest(placement: Placement, broker: int) -> Ints:
    problem = placement.problem
    rows = np.flatnonzero((placement.owner == broker) & placement.free & (problem.group == NO_GROUP))
    size = (problem.load[rows] * placement.per_cap[broker]).max(axis=1, initial=0.0)
    return rows[np.lexsort((rows, -size))[:MOST_BUNDLES]]


def _may_go(placement: Placement, rows: Ints, broker: int) -> Bools:
    """Which bundles may be given to a broker: it may receive them, or they come home and may stay."""
    problem = placement.problem
    comes_home = (problem.owner[rows] == broker) & ~problem.must_move[rows]
    may_receive = problem.destinations(rows)[:, broker] & (problem.owner[rows] != broker)
    has_topics_left = placement.topics[broker] + problem.topics[rows] < placement.topic_limit
    allowed: Bools = comes_home | (may_receive & placement.receives[broker] & has_topics_left)
    return allowed


def _prices_to(placement: Placement, prices: Floats, rows: Ints, broker: int) -> Floats:
    """What it adds to the plan's price when these bundles go to a broker from where they are."""
    first = placement.problem.owner[rows]
    price: Floats = prices[rows] * ((first != broker).astype(float) - (first != placement.owner[rows]))
    return price
