"""A placement under construction: who owns what now, and how far each broker is from its cap."""

from __future__ import annotations

import numpy as np

from evenkeel.model.settings import Settings
from evenkeel.planning.arrays import Bools, Floats, Ints
from evenkeel.planning.floors import Band, overload_caps
from evenkeel.planning.problem import Mobility, PoolProblem


class Placement:
    """The working state of the search; the only mutable thing in the planner.

    Loads are those of the pool's own bundles. `cap` is the band's, lowered to the overload line where the line can be
    reached; `receive_cap` is the most that a destination may be filled up to. `free` are the bundles that may be moved
    for the sake of balance.
    """

    def __init__(self, problem: PoolProblem, band: Band, settings: Settings) -> None:
        self.problem = problem
        self.owner: Ints = problem.owner.copy()
        self.used: Ints = problem.used(problem.owner)
        self.used_before: Ints = self.used.copy()
        # Other pools' bundles are theirs to move, but the room below the overload line that they take is gone.
        self.line: Ints = overload_caps(problem.limit, settings) - problem.background
        is_line_reachable = self.line * 1_000_000_000.0 >= np.array(band.peak_ppb) * problem.limit.astype(np.float64)
        self.cap: Ints = np.where(is_line_reachable, np.minimum(band.cap, self.line), band.cap)
        self.scale: Floats = np.maximum(self.cap, 1).astype(np.float64)
        # Nobody is driven above the overload line, or further above it, to help another.
        self.receive_cap: Ints = np.minimum(self.cap, np.maximum(self.line, self.used_before))
        # A broker of which no limit is known could swallow everything: it is no place to balance to.
        has_limit = (problem.limit > 0).any(axis=1)
        self.takes_part: Bools = problem.is_member & ~problem.must_be_emptied & has_limit
        self.receives: Bools = problem.can_receive & has_limit
        self.free: Bools = problem.mobility == Mobility.FREE

    def move(self, bundle: int, destination: int) -> None:
        load = self.problem.load[bundle]
        self.used[self.owner[bundle]] -= load
        self.used[destination] += load
        self.owner[bundle] = destination

    def excess(self) -> Ints:
        """Load above the cap per broker and resource, of the brokers that are balanced."""
        above = np.maximum(self.used - self.cap, 0)
        above[~self.takes_part] = 0
        excess: Ints = above
        return excess

    def overload(self) -> Floats:
        """Each broker's worst excess as a part of its cap."""
        overload: Floats = (self.excess() / self.scale).max(axis=1, initial=0.0)
        return overload

    def is_above_line(self) -> Bools:
        above: Bools = (self.used > self.line).any(axis=1) & self.takes_part
        return above

    def total_overload(self) -> float:
        return float((self.excess() / self.scale).sum())

    def fits(self, rows: Ints) -> Bools:
        """For each of these bundles, the brokers that may receive it and stay below their cap."""
        room = self.receive_cap - self.used
        has_room = (self.problem.load[rows][:, None, :] <= room[None, :, :]).all(axis=2)
        fitting: Bools = has_room & self.problem.destinations(rows) & self.receives
        return fitting

    def fullness_with(self, row: int) -> Floats:
        """How full each broker would be, as a part of its cap, if it received this bundle."""
        fullness: Floats = ((self.used + self.problem.load[row]) / self.scale).max(axis=1)
        return fullness

    def emptiest(self, row: int, candidates: Bools) -> int:
        """Of the candidates the broker that is least full with this bundle; the first by name among equals."""
        return int(np.argmin(np.where(candidates, self.fullness_with(row), np.inf)))
