"""Drops moves that turned out not to be needed."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.placement import Placement


def prune(placement: Placement) -> None:
    """Take back every move that was not forced and whose bundle still fits below the cap of where it came from.

    Those with the most sessions are taken back first: they spare the most clients.
    """
    problem = placement.problem
    moved = np.flatnonzero((placement.owner != problem.owner) & ~problem.must_move)
    for row in moved[np.lexsort((moved, -problem.sessions[moved]))].tolist():
        home = int(problem.owner[row])
        if (placement.used[home] + problem.load[row] <= placement.cap[home]).all():
            placement.move(row, home)
