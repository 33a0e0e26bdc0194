"""Where the search for a pool's placement ended."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.planning.arrays import Bools
from evenkeel.planning.floors import Band
from evenkeel.planning.search.placement import Placement


@dataclass(frozen=True, slots=True)
class Solution:
    """The placement that was found, the band that it aims at, and whether a deadline ended the search."""

    placement: Placement
    band: Band
    truncated: bool

    @property
    def unrepaired(self) -> Bools:
        """The bundles that stay with an owner that may not keep them."""
        problem = self.placement.problem
        unrepaired: Bools = problem.is_stranded & (self.placement.owner == problem.owner)
        return unrepaired
