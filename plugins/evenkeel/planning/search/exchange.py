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
    market = _Market(placement, prices)
    for least_gain in LEAST_GAINS:
        market.exchange(least_gain)


class _Market:
    """Brokers that exchange bundles; what each has to offer is looked up again only after it has changed."""

    def __init__(self, placement: Placement, prices: Floats) -> None:
        self._placement = placement
        self._prices = prices
        self._offers: dict[int, Ints] = {}

    def exchange(self, least_gain: float) -> None:
        """Make exchanges that take off at least so much each."""
        placement = self._placement
        is_stuck = np.zeros(len(placement.used), dtype=bool)
        for _ in range(EXCHANGES_PER_BROKER * len(placement.used)):
            above = (placement.excess() * placement.per_cap).sum(axis=1)
            above[is_stuck] = 0.0
            if not above.any():
                return
            hot = int(np.argmax(above))
            found = self._find(hot, least_gain)
            if found is None:
                is_stuck[hot] = True
                continue
            # Others may have been stuck only for lack of the room that this makes.
            is_stuck[:] = False
            self._make(found, hot)

    def _make(self, found: _Exchange, hot: int) -> None:
        self._placement.move(found.leaving, found.partner)
        if found.returning is not None:
            self._placement.move(found.returning, hot)
        for broker in (hot, found.partner):
            del self._offers[broker]

    def _find(self, hot: int, least_gain: float) -> _Exchange | None:
        """The exchange that takes off the most for its price, over all partners."""
        partners = self._placement.roomiest_for(hot)[:MOST_PARTNERS].tolist()
        tried = [self._best_with(hot, partner, least_gain) for partner in partners]
        found = [exchange for exchange in tried if exchange is not None]
        return max(found, key=lambda exchange: (exchange.score, -exchange.leaving, -exchange.partner), default=None)

    def _best_with(self, hot: int, partner: int, least_gain: float) -> _Exchange | None:
        placement = self._placement
        leaving, returning = self._offer(hot), self._offer(partner)
        leaving = leaving[_may_go(placement, leaving, partner)]
        returning = returning[_may_go(placement, returning, hot)]
        if not len(leaving):
            return None
        given = placement.problem.load[leaving]
        nothing = np.zeros((1, given.shape[1]), dtype=np.int64)
        # The last column stands for nothing in return.
        taken = np.vstack([placement.problem.load[returning], nothing])
        gain = _above(placement, hot, nothing, nothing) + _above(placement, partner, nothing, nothing)
        gain = gain - _above(placement, hot, -given, taken) - _above(placement, partner, given, -taken)
        price = _prices_to(placement, self._prices, leaving, partner)[:, None] + np.append(
            _prices_to(placement, self._prices, returning, hot), 0.0
        )
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

    def _offer(self, broker: int) -> Ints:
        """The largest bundles of a broker that may be exchanged."""
        if broker not in self._offers:
            placement, problem = self._placement, self._placement.problem
            rows = np.flatnonzero((placement.owner == broker) & placement.free & (problem.group == NO_GROUP))
            size = (problem.load[rows] * placement.per_cap[broker]).max(axis=1, initial=0.0)
            self._offers[broker] = rows[np.lexsort((rows, -size))[:MOST_BUNDLES]]
        return self._offers[broker]


def _above(placement: Placement, broker: int, one: Ints, other: Ints) -> Floats:
    """How much is above a broker's caps, added up over the resources as parts of the caps.

    A row stands for a change of its load by one of `one`, a column for a further change by one of `other`.
    """
    beyond, per_cap = placement.used[broker] - placement.receive_cap[broker], placement.per_cap[broker]
    above = np.zeros((len(one), len(other)))
    # One resource at a time: numpy is slow at adding up along an axis of three.
    for resource in range(len(per_cap)):
        with_one = (beyond[resource] + one[:, resource]) * per_cap[resource]
        above += np.maximum(np.add.outer(with_one, other[:, resource] * per_cap[resource]), 0.0)
    return above


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
