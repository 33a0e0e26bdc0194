"""Takes bundles from owners that may not keep them: not eligible, stopping or gone."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.arrays import Ints
from evenkeel.planning.search.packing import find_place
from evenkeel.planning.search.placement import Placement


def place_in_need(placement: Placement, rows: Ints) -> None:
    """Give bundles that must move, and found no place inside the band, one below the overload line if there is one.

    Above its cap a broker may go only as far as the overload line, or as it was already. Where no broker with a known
    limit has room, one without any will do: better an owner of unknown strength than a forbidden one.
    """
    ceiling = np.maximum(placement.line, placement.used_before)
    for row in rows.tolist():
        placement.lift(row)
        destination = find_place(placement, row, ceiling)
        if destination is None:
            destination = _find_unmeasured(placement, row)
        placement.put(row, int(placement.owner[row]) if destination is None else destination)


def _find_unmeasured(placement: Placement, row: int) -> int | None:
    """The eligible broker without a known limit that carries the least of the pool's load; the first among equals."""
    candidates = placement.candidates(row, placement.problem.can_receive & ~placement.receives)
    if not candidates.any():
        return None
    used = placement.used.sum(axis=1)
    return int(np.argmin(np.where(candidates, used, np.iinfo(np.int64).max)))
