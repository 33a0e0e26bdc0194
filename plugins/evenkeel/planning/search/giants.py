"""Finds a seat for bundles that no broker can carry inside the band.

Such a bundle keeps its broker above the cap whatever else moves. The best reachable is the largest broker that may own
it, and little else on that broker; chasing the band there would cost moves and bring nothing.
"""

from __future__ import annotations

import numpy as np

from evenkeel.planning.arrays import Ints
from evenkeel.planning.search.placement import Placement

# A giant moves only if that lowers its broker's peak by at least this part.
WORTH_A_MOVE = 0.02


def seat_giants(placement: Placement, tolerance: float) -> None:
    """Give each giant the broker that it overfills the least, and aim there at the giant's own load plus tolerance."""
    for row in _find_giants(placement).tolist():
        seat = _find_seat(placement, row)
        if seat != placement.owner[row]:
            placement.move(row, seat)
        load = placement.problem.load[row]
        placement.raise_cap(seat, np.where(load > placement.cap[seat], np.ceil(load * (1 + tolerance)), 0))
        # It has the best seat there is: others leave its broker, not the giant, which would find no other.
        placement.free[row] = False


def _find_giants(placement: Placement) -> Ints:
    """Bundles that are, in some resource, above the cap of every broker that may own them; the largest first."""
    problem = placement.problem
    largest = np.zeros((len(problem.eligible), problem.load.shape[1]), dtype=np.int64)
    for kind, may_own in enumerate(problem.eligible):
        largest[kind] = placement.cap[may_own & placement.receives].max(axis=0, initial=0)
    is_giant = (problem.load > largest[problem.eligibility_class]).any(axis=1)
    is_giant &= (problem.load > placement.cap[problem.owner]).any(axis=1) | problem.must_move
    giants = np.flatnonzero(is_giant & (placement.free | problem.must_move))
    size = (problem.load[giants] * placement.per_cap[problem.owner[giants]]).max(axis=1, initial=0.0)
    ordered: Ints = giants[np.lexsort((giants, -size))]
    return ordered


def _find_seat(placement: Placement, row: int) -> int:
    """The owner, unless another broker would be filled clearly less and stay below its overload line."""
    problem = placement.problem
    owner, load = int(placement.owner[row]), problem.load[row]
    peak = (load * placement.per_cap).max(axis=1)
    candidates = placement.candidates(row) & placement.takes_part & (load <= placement.line).all(axis=1)
    others = np.where(candidates, peak, np.inf)
    # Among equal brokers the one that carries least has the least to give away.
    best = int(np.lexsort((np.arange(len(peak)), (placement.used * placement.per_cap).sum(axis=1), others))[0])
    must_leave = problem.must_move[row] and np.isfinite(others[best])
    return best if must_leave or others[best] < (1 - WORTH_A_MOVE) * peak[owner] else owner
