"""Chooses the bundles that leave hot brokers: for each broker the cheapest that bring it below all of its caps."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.arrays import Bools, Floats, Ints
from evenkeel.planning.search.covering import choose_cover
from evenkeel.planning.search.hot_brokers import rows_by_owner
from evenkeel.planning.search.placement import Placement

# Brokers with the most room that are asked first whether a bundle fits; few bundles have to ask all others too.
ROOMIEST_BROKERS = 32


def choose_departures(placement: Placement, prices: Floats, may_leave: Bools, *, must_fit: bool) -> Ints:
    """The rows of the bundles that leave, in order; `may_leave` says which are asked.

    With `must_fit` a broker lets only bundles go that would fit somewhere now, if these suffice.
    """
    problem = placement.problem
    chosen = []
    excess = placement.excess()
    hot = np.flatnonzero(excess.any(axis=1))
    owned = rows_by_owner(placement.owner, len(excess)) if len(hot) else []
    for broker in hot.tolist():
        rows = owned[broker][may_leave[owned[broker]]]
        if must_fit:
            fitting = rows[_fits_somewhere(placement, rows)]
            if (problem.load[fitting].sum(axis=0) >= excess[broker]).all():
                rows = fitting
        chosen.append(rows[choose_cover(prices[rows], problem.load[rows], excess[broker])])
    return np.sort(np.concatenate(chosen)) if chosen else np.zeros(0, dtype=np.int64)


def _fits_somewhere(placement: Placement, rows: Ints) -> Bools:
    """Whether some broker that may receive a bundle has room for it as things are."""
    room = (placement.receive_cap - placement.used) * placement.per_cap
    roomiest = np.argsort(-room.min(axis=1), kind="stable")[:ROOMIEST_BROKERS]
    fits: Bools = np.asarray(placement.fits(rows, roomiest).any(axis=1))
    doubtful = np.flatnonzero(~fits)
    fits[doubtful] = placement.fits(rows[doubtful], np.arange(len(room))).any(axis=1)
    return fits
