"""Hot brokers, and which of their bundles should leave.

A broker is hot if it is above a cap in some resource. The functions here find three things about one: how many
bundles have to leave at least, at what price at least, and which bundles to choose. The first two are exact and fast
because they look at one resource at a time; the choice covers all resources at once with a small integer program.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from evenkeel.planning.problem.band import Band
from evenkeel.planning.problem.columns import Bools, Floats, Ints
from evenkeel.planning.problem.problem import PoolProblem
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.programs import SOLVER_ERROR, Program, Relaxed, solve_relaxed, solve_whole

# The brokers with the most free capacity, which are checked first; most bundles fit on one of them.
ROOMIEST_BROKERS = 32
# How many bundles the integer program decides; the relaxed program decides the others.
CORE_BUNDLES = 24
CORE_NODES = 10
# The choice may be this far from the best: a share of the price of the core, which is a small part of the whole.
CORE_GAP = 0.02

LargestLoads = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class HotBroker:
    """A broker above a cap: its bundles that do not have to leave anyway, and the excess of each resource."""

    broker: int
    bundles: Ints
    excess: Ints


def find_hot_brokers(problem: PoolProblem, cap: Ints) -> list[HotBroker]:
    """Find the members that stay above their cap even after every bundle that must move has left."""
    stays = ~problem.must_move
    used = np.zeros_like(problem.limit)
    np.add.at(used, problem.owner[stays], problem.load[stays])
    above = np.maximum(used - cap, 0)
    above[~problem.is_member | problem.must_be_emptied] = 0
    groups = rows_by_owner(problem.owner, len(problem.broker_ids))
    return [
        HotBroker(broker, mine[stays[mine]], above[broker])
        for broker in np.flatnonzero(above.any(axis=1)).tolist()
        if len(mine := groups[broker])
    ]


def rows_by_owner(owner: Ints, brokers: int) -> list[Ints]:
    """List each broker's bundles as rows, in ascending order."""
    order = np.argsort(owner, kind="stable")
    ends = np.searchsorted(owner[order], np.arange(brokers + 1))
    return [order[ends[broker] : ends[broker + 1]] for broker in range(brokers)]


def fewest_bundles(load: Ints, excess: int) -> int:
    """How many bundles must leave at least to cover the excess; all of them if even that is too little."""
    return fewest_to_cover(np.cumsum(np.sort(load)[::-1]), excess)


def fewest_to_cover(covered: Ints, excess: int) -> int:
    """`fewest_bundles` for loads in descending order, given as running sums."""
    if excess <= 0:
        return 0
    return min(int(np.searchsorted(covered, excess)) + 1, len(covered))


def cheapest_part(load: Ints, price: Ints, excess: int) -> int:
    """The least price at which the excess could leave if bundles were divisible, rounded down."""
    carrying = np.flatnonzero(load > 0)
    order = carrying[np.lexsort((carrying, price[carrying] / load[carrying]))]
    covered = np.cumsum(load[order])
    whole = int(np.searchsorted(covered, excess, side="right"))
    total = int(price[order[:whole]].sum())
    if whole < len(order):
        left = excess - (int(covered[whole - 1]) if whole else 0)
        total += int(price[order[whole]]) * left // int(load[order[whole]])
    return total


def largest_loads(problem: PoolProblem, band: Band) -> list[LargestLoads]:
    """List, per broker and resource, the largest loads in descending order, as many as cover the excess over the band.

    The fewest moves for any wider band follow from these. For a broker that belongs to another pool every load is
    listed, because only that pool knows where its band ends.
    """
    excess = np.maximum(problem.used(problem.owner) + problem.background - band.cap, 0)
    excess[~problem.is_member] = problem.load.sum(axis=0)
    owned = rows_by_owner(problem.owner, len(problem.broker_ids))
    return [
        tuple(
            _largest(problem.load[owned[broker], resource], int(most)) for resource, most in enumerate(excess[broker])
        )
        for broker in range(len(problem.broker_ids))
    ]


def _largest(load: Ints, excess: int) -> tuple[int, ...]:
    if not excess:
        return ()
    falling = np.sort(load[load > 0])[::-1]
    return tuple(falling[: fewest_to_cover(np.cumsum(falling), excess)].tolist())


def choose_departures(placement: Placement, prices: Floats, may_leave: Bools, *, must_fit: bool) -> Ints:
    """Choose the bundles that leave hot brokers, from those of `may_leave`; returns rows in ascending order.

    With `must_fit`, a broker gives up only bundles that currently fit somewhere else, if these are enough.
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
    """Whether some broker that may receive the bundle currently has enough free capacity."""
    room = (placement.receive_cap - placement.used) * placement.per_cap
    roomiest = np.argsort(-room.min(axis=1), kind="stable")[:ROOMIEST_BROKERS]
    fits: Bools = np.asarray(placement.fits(rows, roomiest).any(axis=1))
    doubtful = np.flatnonzero(~fits)
    fits[doubtful] = placement.fits(rows[doubtful], np.arange(len(room))).any(axis=1)
    return fits


def choose_cover(price: Floats, load: Ints, excess: Ints) -> Bools:
    """Choose bundles whose load covers the excess of every resource, at close to the least price.

    The relaxed program decides most bundles correctly: those far from its break-even price. Only the core around that
    price is searched. If all bundles together are too little, all of them are chosen.
    """
    needs = np.flatnonzero(excess)
    if not len(needs):
        return np.zeros(len(price), dtype=bool)
    if (load[:, needs].sum(axis=0) <= excess[needs]).any():
        return np.asarray(load[:, needs].any(axis=1))
    # A bundle that covers more than the whole excess is no better than one that covers exactly that.
    share = np.minimum(load[:, needs] / (excess[needs] * (1 + SOLVER_ERROR)), 1.0)
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


def cover_program(price: Floats, share: Floats, need: Floats) -> Program:
    """The program for the cheapest bundles whose shares add up to the need of every resource."""
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
    """Take the largest bundles until everything is covered: the fallback that always exists."""
    order = np.lexsort((np.arange(len(share)), -share.sum(axis=1)))
    is_covered = (np.cumsum(share[order], axis=0) >= 1.0).all(axis=1)
    chosen = np.zeros(len(share), dtype=bool)
    chosen[order[: int(np.argmax(is_covered)) + 1]] = True
    return chosen
