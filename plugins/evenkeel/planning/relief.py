"""Relieves hot brokers by single moves: hottest broker first, and from it the fewest and largest useful bundles."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.arrays import Bools, Ints
from evenkeel.planning.placement import Placement

# Bundles whose destinations are looked up at a time.
CHUNK_BUNDLES = 64


def relieve(placement: Placement) -> None:
    """Move bundles off hot brokers until none is hot, or single moves help none of those that are."""
    is_stuck = np.zeros(len(placement.used), dtype=bool)
    while (hottest := find_hottest(placement, is_stuck)) is not None:
        if not _relieve_once(placement, hottest):
            is_stuck[hottest] = True


def find_hottest(placement: Placement, is_stuck: Bools) -> int | None:
    """The hottest broker that is not stuck; those above the overload line come first."""
    overload = np.where(is_stuck, 0.0, placement.overload())
    if not overload.any():
        return None
    is_urgent = placement.is_above_line() & (overload > 0)
    return int(np.argmax(np.where(is_urgent, overload, -1.0) if is_urgent.any() else overload))


def _relieve_once(placement: Placement, hot: int) -> bool:
    """Make the move that leaves the least to do; false where no useful bundle fits anywhere."""
    candidates = rank_candidates(placement, hot)
    for start in range(0, len(candidates), CHUNK_BUNDLES):
        chunk = candidates[start : start + CHUNK_BUNDLES]
        fits = placement.fits(chunk)
        fits[:, hot] = False
        movable = np.flatnonzero(fits.any(axis=1))
        if len(movable):
            row = int(chunk[movable[0]])
            placement.move(row, placement.emptiest(row, fits[movable[0]]))
            return True
    return False


def rank_candidates(placement: Placement, hot: int) -> Ints:
    """The useful bundles of a hot broker, best first.

    Best is what leaves the least excess behind, so large bundles come first; among those that leave none, the
    smallest, so that no more load moves than must.
    """
    problem = placement.problem
    mine = np.flatnonzero((placement.owner == hot) & placement.free)
    excess = placement.excess()[hot]
    load = problem.load[mine]
    scale = placement.scale[hot]
    left = (np.maximum(excess - load, 0) / scale).sum(axis=1)
    is_useful = left < (excess / scale).sum()
    size = (load / scale).max(axis=1, initial=0.0)
    order = np.lexsort((mine, problem.sessions[mine], size, left))
    ranked: Ints = mine[order[is_useful[order]]]
    return ranked
