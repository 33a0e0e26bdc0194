"""The placement that a search works on and returns: who owns what, and how far each broker is from its cap."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenkeel.model.settings import Settings
from evenkeel.planning.problem.anti_affinity import GroupCounts
from evenkeel.planning.problem.band import Band, overload_caps
from evenkeel.planning.problem.columns import Bools, Floats, Ints
from evenkeel.planning.problem.problem import Mobility, PoolProblem


class Placement:
    """The working state of a search, and the only mutable object in it.

    Loads are those of the pool's own bundles. `cap` is the band's cap, lowered to the overload line where that can be
    reached; `receive_cap` is how far a destination may be filled. `free` marks the bundles that may move for balance.
    """

    def __init__(self, problem: PoolProblem, band: Band, settings: Settings) -> None:
        self.problem = problem
        self.owner: Ints = problem.owner.copy()
        self.used: Ints = problem.used(problem.owner)
        self.used_before: Ints = self.used.copy()
        # Other pools plan their own bundles, but the capacity below the overload line that those take is gone.
        self.line: Ints = overload_caps(problem.limit, settings) - problem.background
        is_line_reachable = self.line * 1_000_000_000.0 >= np.array(band.peak_ppb) * problem.limit.astype(np.float64)
        self.cap: Ints = np.where(is_line_reachable, np.minimum(band.cap, self.line), band.cap)
        self.per_cap: Floats
        self.receive_cap: Ints
        self._follow_cap()
        # A broker without any known limit would seem to fit everything, so balance never sends bundles there.
        has_limit = (problem.limit > 0).any(axis=1)
        self.takes_part: Bools = problem.is_member & ~problem.must_be_emptied & has_limit
        self.receives: Bools = problem.can_receive & has_limit
        self.free: Bools = problem.mobility == Mobility.FREE
        self.topics: Ints = np.bincount(problem.owner, problem.topics, len(problem.broker_ids)).astype(np.int64)
        self.topic_limit = settings.broker_max_topics
        self.groups = GroupCounts(problem.group, problem.owner, problem.domain)

    def raise_cap(self, broker: int, cap: Floats) -> None:
        """Raise the cap of a broker whose band is out of reach."""
        self.cap[broker] = np.maximum(self.cap[broker], cap.astype(np.int64))
        self._follow_cap()

    def _follow_cap(self) -> None:
        self.per_cap = 1.0 / np.maximum(self.cap, 1).astype(np.float64)
        # No broker is pushed above the overload line, or further above it, to help another.
        self.receive_cap = np.minimum(self.cap, np.maximum(self.line, self.used_before))

    def lift(self, row: int) -> None:
        """Take a bundle off its broker until `put` places it again."""
        self.used[self.owner[row]] -= self.problem.load[row]

    def put(self, row: int, broker: int) -> None:
        """Place a lifted bundle on a broker."""
        self.used[broker] += self.problem.load[row]
        if broker != self.owner[row]:
            # A departure frees no topics or group counts: a wave has to be legal even if nothing has left yet.
            self._count(row, int(self.owner[row]), -1)
            self._count(row, broker, 1)
            self.owner[row] = broker

    def move(self, row: int, broker: int) -> None:
        self.lift(row)
        self.put(row, broker)

    def restore(self, owner: Ints) -> None:
        """Go back to an earlier placement."""
        for row in np.flatnonzero(self.owner != owner).tolist():
            self.move(row, int(owner[row]))

    def candidates(self, row: int, among: Bools | None = None) -> Bools:
        """The brokers that may receive a bundle by every rule except load; by default those with a known limit."""
        problem = self.problem
        candidates: Bools = problem.eligible[problem.eligibility_class[row]] & (
            self.receives if among is None else among
        )
        candidates &= self.topics + problem.topics[row] < self.topic_limit
        candidates[[problem.owner[row], self.owner[row]]] = False
        if problem.group[row] >= 0:
            candidates &= self.groups.has_room(int(problem.group[row]), int(problem.owner[row]))
        return candidates

    def least_crowded(self, row: int, candidates: Bools) -> Bools:
        """The candidates with the fewest bundles of the bundle's anti-affinity group; all of them without a group."""
        group = int(self.problem.group[row])
        return candidates if group < 0 else self.groups.least_crowded(group, candidates)

    def excess(self) -> Ints:
        """Load above the cap, per broker and resource; 0 for brokers that take no part in balancing."""
        above = np.maximum(self.used - self.cap, 0)
        above[~self.takes_part] = 0
        excess: Ints = above
        return excess

    def roomiest_for(self, hot: int) -> Ints:
        """The other brokers that may receive, sorted by free capacity for what a hot broker has too much of.

        Free capacity is measured in the hot broker's caps, so that a large broker with little to spare still counts.
        Capacity in every resource is worth more than capacity in one.
        """
        room = (self.receive_cap - self.used) * self.per_cap[hot]
        appeal = room[:, self.used[hot] > self.cap[hot]].min(axis=1, initial=np.inf) + room.min(axis=1)
        order = np.lexsort((np.arange(len(appeal)), -appeal))
        others: Ints = order[self.receives[order] & (order != hot)]
        return others

    def shortfall(self) -> float:
        """Total load above the caps as a share of the caps: 0 if every broker is inside its band."""
        return float((self.excess() * self.per_cap).sum())

    def price(self, prices: Floats) -> float:
        """The total price of the moves so far."""
        return float(prices[self.owner != self.problem.owner].sum())

    def score(self, prices: Floats) -> tuple[float, float]:
        """A sort key, lower is better: first the load above the caps, then the price of the moves."""
        return self.shortfall(), self.price(prices)

    def fits(self, rows: Ints, brokers: Ints) -> Bools:
        """For each bundle, which of these brokers may receive it and would stay below their cap."""
        room = (self.receive_cap - self.used)[brokers]
        has_room = (self.problem.load[rows][:, None, :] <= room[None, :, :]).all(axis=2)
        fitting: Bools = has_room & (self.problem.destinations(rows) & self.receives)[:, brokers]
        return fitting

    def _count(self, row: int, broker: int, count: int) -> None:
        problem = self.problem
        first = int(problem.owner[row])
        if broker == first:
            return
        self.topics[broker] += count * problem.topics[row]
        if problem.group[row] >= 0:
            self.groups.add(int(problem.group[row]), first, broker, count)


@dataclass(frozen=True, slots=True)
class Solution:
    """The placement that was found, the band that it aims at, and whether a deadline cut the search short."""

    placement: Placement
    band: Band
    truncated: bool

    @property
    def unrepaired(self) -> Bools:
        """Bundles that stay with an owner that may not keep them."""
        problem = self.placement.problem
        unrepaired: Bools = problem.is_stranded & (self.placement.owner == problem.owner)
        return unrepaired
