"""Drops moves that turned out not to be needed."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.arrays import Floats
from evenkeel.planning.search.placement import Placement


def prune(placement: Placement, prices: Floats) -> None:
    """Take back every move that was not forced and whose bundle still fits below the cap of where it came from.

    The most expensive are taken back first.
    """
    problem = placement.problem
    moved = np.flatnonzero((placement.owner != problem.owner) & ~problem.must_move)
    for row in moved[np.lexsort((moved, -prices[moved]))].tolist():
        first = int(problem.owner[row])
        if (placement.used[first] + problem.load[row] <= placement.cap[first]).all():
            placement.move(row, first)
