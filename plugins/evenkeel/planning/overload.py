"""Takes bundles off brokers above the overload line even if no broker has room for them inside its band."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.placement import Placement


def relieve_overloaded(placement: Placement) -> bool:
    """Move bundles from above the line to brokers that stay below it; answers whether anything was moved.

    Below the line comes before inside the band. A destination may leave its band only in the resources in which the
    source is above the line, so that no peak rises.
    """
    has_moved = False
    for hot in np.flatnonzero(placement.is_above_line()).tolist():
        while _move_one(placement, hot):
            has_moved = True
    return has_moved


def _move_one(placement: Placement, hot: int) -> bool:
    problem = placement.problem
    is_above = placement.used[hot] > placement.line[hot]
    if not is_above.any():
        return False
    ceiling = np.where(is_above, np.maximum(placement.line, placement.receive_cap), placement.receive_cap)
    mine = np.flatnonzero((placement.owner == hot) & placement.free)
    size = (problem.load[mine] / placement.scale[hot])[:, is_above].max(axis=1, initial=0.0)
    for row in mine[np.lexsort((mine, -size))][: np.count_nonzero(size)].tolist():
        fits = (problem.load[row] <= ceiling - placement.used).all(axis=1)
        fits &= problem.destinations(np.array([row]))[0] & placement.receives
        fits[hot] = False
        if fits.any():
            placement.move(row, placement.emptiest(row, fits))
            return True
    return False
