"""Finds new owners for bundles that leave: largest first, each to the broker that is least full with it."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.anti_affinity import NO_GROUP
from evenkeel.planning.arrays import Ints
from evenkeel.planning.search.placement import Placement

# What a broker's fullness counts against how well its room suits a bundle; found by trial on clusters of all shapes.
FULLNESS_WEIGHT = 0.05
TINY = 1e-300
# Newcomers that are asked to make room for a bundle, the smallest first.
MOST_EXCHANGES = 64


def pack(placement: Placement, rows: Ints) -> Ints:
    """Move each of these bundles to a broker that stays below its cap; answers those for which there was none.

    They are thought of as gone from their owners before the first is placed, so that owners have room for others.
    What finds no place goes back to its owner.
    """
    problem = placement.problem
    for row in rows.tolist():
        placement.lift(row)
    size = (problem.load[rows] / np.maximum(problem.load.sum(axis=0), 1)).max(axis=1, initial=0.0)
    homeless = []
    for row in rows[np.lexsort((rows, -size))].tolist():
        destination = find_place(placement, row, placement.receive_cap)
        if destination is None:
            homeless.append(row)
        else:
            placement.put(row, destination)
    for row in homeless:
        placement.put(row, int(placement.owner[row]))
    still = [row for row in homeless if not make_room(placement, row)]
    return np.array(sorted(still), dtype=np.int64)


def make_room(placement: Placement, row: int) -> bool:
    """Move a bundle to a broker from which another newcomer can go elsewhere; answers whether there was one.

    A newcomer moves in any case, so sending it elsewhere costs nothing.
    """
    problem = placement.problem
    load = problem.load[row]
    newcomers = np.flatnonzero((placement.owner != problem.owner) & (problem.group == NO_GROUP))
    brokers = placement.owner[newcomers]
    fits = (placement.used[brokers] - problem.load[newcomers] + load <= placement.receive_cap[brokers]).all(axis=1)
    fits &= placement.candidates(row)[brokers]
    able = newcomers[fits]
    size = (problem.load[able] * placement.per_cap[placement.owner[able]]).max(axis=1, initial=0.0)
    for newcomer in able[np.lexsort((able, size))][:MOST_EXCHANGES].tolist():
        broker = int(placement.owner[newcomer])
        placement.move(row, broker)
        placement.lift(newcomer)
        elsewhere = find_place(placement, newcomer, placement.receive_cap)
        if elsewhere is not None:
            placement.put(newcomer, elsewhere)
            return True
        placement.put(newcomer, broker)
        placement.move(row, int(problem.owner[row]))
    return False


def find_place(placement: Placement, row: int, ceiling: Ints) -> int | None:
    """The best broker for a bundle that no broker carries at the moment; None where all would go above the ceiling.

    Of an anti-affinity group's bundles the failure domain with the fewest comes first, then the broker with the
    fewest. Then the broker whose room has the most similar shape to the bundle's load, and which is least full then:
    a bundle that is heavy in one resource should not block room that others need. Then the first by name.
    """
    candidates = placement.candidates(row)
    load = placement.problem.load[row]
    after = placement.used + load
    candidates &= (after <= ceiling).all(axis=1)
    possible = np.flatnonzero(candidates)
    if not len(possible):
        return None
    if placement.problem.group[row] != NO_GROUP:
        possible = np.flatnonzero(placement.least_crowded(row, candidates))
    per_cap = placement.per_cap[possible]
    room = (ceiling[possible] - placement.used[possible]) * per_cap
    needed = load * per_cap
    likeness = (room * needed).sum(axis=1) / np.sqrt((room**2).sum(axis=1) * (needed**2).sum(axis=1) + TINY)
    fullness = (after[possible] * per_cap).max(axis=1)
    return int(possible[np.argmin(FULLNESS_WEIGHT * fullness - likeness)])
