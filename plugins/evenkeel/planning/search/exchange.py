"""Relief for hot brokers that no single move can help: two brokers exchange bundles.

Every exchange lowers the total load above the caps. A bundle that has already moved costs nothing when it moves on, and
refunds its price when it returns to its first owner, so exchanges of arrivals come first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenkeel.planning.problem.anti_affinity import NO_GROUP
from evenkeel.planning.problem.columns import Bools, Floats, Ints
from evenkeel.planning.search.placement import Placement

# Work budget: bundles considered per broker, largest first; partners per hot broker, most free capacity first; and
# exchanges per broker of the pool.
MOST_BUNDLES = 96
MOST_PARTNERS = 32
EXCHANGES_PER_BROKER = 10
# The least gain of an exchange, as a share of a cap: first only large gains, then whatever helps.
LEAST_GAINS = (0.002, 1e-6)
# An exchange is scored by gain / (price + this offset); the offset is small, so that cheap exchanges come first.
PRICE_OFFSET = 0.1


@dataclass(frozen=True, slots=True)
class _Exchange:
    """`leaving` goes from a hot broker to a partner; `returning`, if there is one, goes the other way."""

    score: float
    leaving: int
    partner: int
    returning: int | None


def exchange(placement: Placement, prices: Floats) -> None:
    """Exchange bundles until no broker is hot, no exchange helps, or the work budget is used up."""
    exchanges = _Exchanges(placement, prices)
    for least_gain in LEAST_GAINS:
        exchanges.make_all(least_gain)


class _Exchanges:
    """Finds and makes exchanges; the bundles that a broker can offer are cached until it changes."""

    def __init__(self, placement: Placement, prices: Floats) -> None:
        self._placement = placement
        self._prices = prices
        self._offers: dict[int, Ints] = {}

    def make_all(self, least_gain: float) -> None:
        """Make exchanges that gain at least this much each."""
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
            # This may free the capacity that other brokers were waiting for.
            is_stuck[:] = False
            self._make(found, hot)

    def _make(self, found: _Exchange, hot: int) -> None:
        self._placement.move(found.leaving, found.partner)
        if found.returning is not None:
            self._placement.move(found.returning, hot)
        for broker in (hot, found.partner):
            del self._offers[broker]

    def _find(self, hot: int, least_gain: float) -> _Exchange | None:
        """The exchange with the best score over all partners."""
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
        # The last column means nothing in return.
        taken = np.vstack([placement.problem.load[returning], nothing])
        gain = _above(placement, hot, nothing, nothing) + _above(placement, partner, nothing, nothing)
        gain = gain - _above(placement, hot, -given, taken) - _above(placement, partner, given, -taken)
        price = _prices_to(placement, self._prices, leaving, partner)[:, None] + np.append(
            _prices_to(placement, self._prices, returning, hot), 0.0
        )
        score = np.where(gain > least_gain, gain / (PRICE_OFFSET + np.maximum(price, 0.0)), -np.inf)
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
        """The largest bundles that a broker may exchange."""
        if broker not in self._offers:
            placement, problem = self._placement, self._placement.problem
            rows = np.flatnonzero((placement.owner == broker) & placement.free & (problem.group == NO_GROUP))
            size = (problem.load[rows] * placement.per_cap[broker]).max(axis=1, initial=0.0)
            self._offers[broker] = rows[np.lexsort((rows, -size))[:MOST_BUNDLES]]
        return self._offers[broker]


def _above(placement: Placement, broker: int, one: Ints, other: Ints) -> Floats:
    """Load above a broker's caps as a share of the caps, summed over the resources.

    Each row changes the broker's load by an entry of `one`, each column by a further entry of `other`.
    """
    beyond, per_cap = placement.used[broker] - placement.receive_cap[broker], placement.per_cap[broker]
    above = np.zeros((len(one), len(other)))
    # One resource at a time: numpy is slow at summing along an axis of three.
    for resource in range(len(per_cap)):
        with_one = (beyond[resource] + one[:, resource]) * per_cap[resource]
        above += np.maximum(np.add.outer(with_one, other[:, resource] * per_cap[resource]), 0.0)
    return above


def _may_go(placement: Placement, rows: Ints, broker: int) -> Bools:
    """Which bundles may go to a broker: those it may receive, and its own that may return."""
    problem = placement.problem
    may_return = (problem.owner[rows] == broker) & ~problem.must_move[rows]
    may_receive = problem.destinations(rows)[:, broker] & (problem.owner[rows] != broker)
    has_topics_left = placement.topics[broker] + problem.topics[rows] < placement.topic_limit
    allowed: Bools = may_return | (may_receive & placement.receives[broker] & has_topics_left)
    return allowed


def _prices_to(placement: Placement, prices: Floats, rows: Ints, broker: int) -> Floats:
    """The change of the plan's price if these bundles go to a broker from where they are now."""
    first = placement.problem.owner[rows]
    price: Floats = prices[rows] * ((first != broker).astype(float) - (first != placement.owner[rows]))
    return price
