"""Chooses the cheapest bundles whose leaving brings a broker below its caps in every resource at once."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

from evenkeel.planning.arrays import Bools, Floats, Ints
from evenkeel.planning.search.programs import SOLVER_ERROR, Program, Relaxed, solve_relaxed, solve_whole

# Bundles whose choice is left to the integer program; the others are decided by the relaxed one.
CORE_BUNDLES = 24
CORE_NODES = 10
# How far from the best a choice may be: a part of the price of the core, which is a small part of the whole.
CORE_GAP = 0.02


def choose_cover(price: Floats, load: Ints, excess: Ints) -> Bools:
    """Which bundles to take, at about the least price, so that their load covers the excess of every resource.

    The relaxed program decides all but a few bundles rightly: what is far from its break-even price stays or goes.
    Only the core around that price is searched. Where everything together is too little, everything is taken.
    """
    needs = np.flatnonzero(excess)
    if not len(needs):
        return np.zeros(len(price), dtype=bool)
    if (load[:, needs].sum(axis=0) <= excess[needs]).any():
        return np.asarray(load[:, needs].any(axis=1))
    share = shares_of_need(load[:, needs], excess[needs])
    if len(price) > CORE_BUNDLES:
        relaxed = solve_relaxed(cover_program(price, share, np.ones(len(needs))))
        core_size = CORE_BUNDLES
        while relaxed is not None and core_size < len(price):
            found = _search_core(price, share, relaxed, core_size)
            if found is not None:
                return found
            core_size *= 2
    solved = solve_whole(cover_program(price, share, np.ones(len(needs))), CORE_NODES, CORE_GAP)
    return _take_largest(share) if solved.x is None else solved.x > 0.5


def shares_of_need(load: Ints, excess: Ints) -> Floats:
    """Each bundle's part of what has to leave; more than all of it is no better than all of it."""
    return np.minimum(load / (excess * (1 + SOLVER_ERROR)), 1.0)


def cover_program(price: Floats, share: Floats, need: Floats) -> Program:
    """The cheapest bundles whose shares add up to the need of every resource."""
    return Program(
        price=price,
        at_most=csr_array(-share.T),
        limit=-need,
        highest=np.ones(len(price)),
        is_whole=np.ones(len(price), dtype=bool),
    )


def _search_core(price: Floats, share: Floats, relaxed: Relaxed, size: int) -> Bools | None:
    is_cut = (relaxed.x > SOLVER_ERROR) & (relaxed.x < 1 - SOLVER_ERROR)
    doubt = np.where(is_cut, -1.0, np.abs(relaxed.reduced_price))
    core = np.lexsort((np.arange(len(price)), doubt))[:size]
    chosen: Bools = relaxed.x > 0.5
    chosen[core] = False
    left = 1.0 - share[chosen].sum(axis=0)
    solved = solve_whole(cover_program(price[core], share[core], left), CORE_NODES, CORE_GAP)
    if solved.x is None:
        return None
    chosen[core] = solved.x > 0.5
    return chosen


def _take_largest(share: Floats) -> Bools:
    """Largest first until all is covered: the answer of last resort, which always exists."""
    order = np.lexsort((np.arange(len(share)), -share.sum(axis=1)))
    is_covered = (np.cumsum(share[order], axis=0) >= 1.0).all(axis=1)
    chosen = np.zeros(len(share), dtype=bool)
    chosen[order[: int(np.argmax(is_covered)) + 1]] = True
    return chosen
