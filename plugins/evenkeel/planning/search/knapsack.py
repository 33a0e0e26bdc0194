"""Simple bounds for "which bundles must leave": one resource at a time, exact and fast."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.arrays import Ints


def fewest_bundles(load: Ints, excess: int) -> int:
    """How many bundles must leave at least so that their load covers the excess; all where even that is too little."""
    return fewest_to_cover(np.cumsum(np.sort(load)[::-1]), excess)


def fewest_to_cover(covered: Ints, excess: int) -> int:
    """The same for loads in falling order, of which `covered` are the running sums."""
    if excess <= 0:
        return 0
    return min(int(np.searchsorted(covered, excess)) + 1, len(covered))


def cheapest_part(load: Ints, price: Ints, excess: int) -> int:
    """The least price at which load of this size can leave if bundles could be cut, rounded down."""
    carrying = np.flatnonzero(load > 0)
    order = carrying[np.lexsort((carrying, price[carrying] / load[carrying]))]
    covered = np.cumsum(load[order])
    whole = int(np.searchsorted(covered, excess, side="right"))
    total = int(price[order[:whole]].sum())
    if whole < len(order):
        left = excess - (int(covered[whole - 1]) if whole else 0)
        total += int(price[order[whole]]) * left // int(load[order[whole]])
    return total
