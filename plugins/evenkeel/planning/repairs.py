"""Takes bundles from owners that may not keep them: not eligible, stopping or gone."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.anti_affinity import GroupCounts
from evenkeel.planning.arrays import Bools
from evenkeel.planning.placement import Placement
from evenkeel.planning.problem import Mobility


def repair(placement: Placement) -> Bools:
    """Give every bundle that must move, and may, a legal owner; answers which bundles were left without one.

    Largest first. A destination below its cap is preferred; if there is none, one that stays below the overload line.
    """
    problem = placement.problem
    rows = np.flatnonzero(problem.must_move)
    counts = GroupCounts(zip(problem.groups, problem.owner.tolist(), strict=True), problem.domains)
    peaks = counts.peaks()
    size = (problem.load[rows] / np.maximum(problem.load.max(axis=0, initial=0), 1)).max(axis=1, initial=0.0)
    for row in rows[np.lexsort((rows, -size))].tolist():
        if problem.mobility[row] > Mobility.REPAIR_ONLY:
            continue
        candidates = problem.destinations(np.array([row]))[0]
        candidates[problem.owner[row]] = False
        group = problem.groups[row]
        if group is not None:
            source = int(problem.owner[row])
            for broker in np.flatnonzero(candidates):
                candidates[broker] = counts.has_room(group, source, int(broker), peaks)
        destination = _choose(placement, row, candidates)
        if destination is not None:
            placement.move(row, destination)
            if group is not None:
                counts.add(group, destination)
    unrepaired: Bools = problem.must_move & (placement.owner == problem.owner)
    return unrepaired


def _choose(placement: Placement, row: int, candidates: Bools) -> int | None:
    load = placement.problem.load[row]
    is_known = (placement.problem.limit > 0).any(axis=1)
    after = placement.used + load
    is_inside = candidates & is_known & (after <= placement.receive_cap).all(axis=1)
    # Above its cap a broker may go only as far as the overload line, or as it was already.
    allowed = np.maximum(placement.line, placement.used_before)
    is_below_line = candidates & is_known & (after <= allowed).all(axis=1)
    for choice in (is_inside, is_below_line, candidates & ~is_known):
        if choice.any():
            return placement.emptiest(row, choice)
    return None
