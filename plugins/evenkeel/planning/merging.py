"""Replaces two moves of a broker by one of a larger bundle, where that does the same."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from evenkeel.planning.arrays import Ints
from evenkeel.planning.placement import Placement

# Work budget: of a broker with more moves than this, only those of its smallest bundles are looked at.
MERGED_MOVES = 24


def merge(placement: Placement) -> None:
    """Merge pairs of moves until no pair of any broker can be merged."""
    for source in range(len(placement.used)):
        while _merge_once(placement, source):
            pass


def _merge_once(placement: Placement, source: int) -> bool:
    problem = placement.problem
    is_own = (problem.owner == source) & placement.free & ~problem.must_move
    moved = np.flatnonzero(is_own & (placement.owner != source))
    size = (problem.load[moved] / placement.scale[source]).max(axis=1, initial=0.0)
    moved = moved[np.lexsort((moved, size))][:MERGED_MOVES]
    staying = np.flatnonzero(is_own & (placement.owner == source))
    for first, second in combinations(moved.tolist(), 2):
        found = _find_substitute(placement, source, first, second, staying)
        if found is not None:
            placement.move(first, source)
            placement.move(second, source)
            placement.move(*found)
            return True
    return False


def _find_substitute(
    placement: Placement, source: int, first: int, second: int, staying: Ints
) -> tuple[int, int] | None:
    """The smallest bundle that relieves the source as much as both do, and the emptiest broker with room for it."""
    problem = placement.problem
    load = problem.load
    ceiling = np.maximum(placement.cap[source], placement.used[source])
    least = placement.used[source] + load[first] + load[second] - ceiling
    enough = staying[(load[staying] >= least).all(axis=1)]
    if not len(enough):
        return None
    room = placement.receive_cap - placement.used
    room[placement.owner[first]] += load[first]
    room[placement.owner[second]] += load[second]
    fits = (load[enough][:, None, :] <= room[None]).all(axis=2) & problem.destinations(enough) & placement.receives
    fits[:, source] = False
    fitting = np.flatnonzero(fits.any(axis=1))
    if not len(fitting):
        return None
    size = (load[enough[fitting]] / placement.scale[source]).max(axis=1)
    best = fitting[np.lexsort((enough[fitting], size))[0]]
    left = ((room - load[enough[best]]) / placement.scale).min(axis=1)
    return int(enough[best]), int(np.argmax(np.where(fits[best], left, -np.inf)))
