"""Lower bounds that hold for any plan that brings a pool into its band, whoever makes it."""

from __future__ import annotations

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.planning.arrays import Ints
from evenkeel.planning.floors import Band
from evenkeel.planning.pool_plan import PoolBounds, vector
from evenkeel.planning.problem import PoolProblem


def find_bounds(problem: PoolProblem, band: Band) -> PoolBounds:
    """Fewest moves, fewest sessions and least load that must leave, source by source.

    A source must hand over what may not stay, and enough load to get below its cap: at least as many bundles as its
    largest ones needed to cover the excess, and at least the sessions of the cheapest load, bundles cut at will.
    Different sources never share a bundle, so their bounds add up.
    """
    used = problem.used(problem.owner)
    must_move = problem.must_move & (problem.mobility <= 1)
    moves = sessions = 0
    moved = np.zeros(len(RESOURCES), dtype=np.int64)
    by_owner = np.argsort(problem.owner, kind="stable")
    ends = np.searchsorted(problem.owner[by_owner], np.arange(len(problem.broker_ids) + 1))
    for broker in range(len(problem.broker_ids)):
        mine = by_owner[ends[broker] : ends[broker + 1]]
        forced = mine[must_move[mine]]
        excess = _excess(problem, band, used, broker)
        fewest, cheapest = len(forced), int(problem.sessions[forced].sum())
        for resource in np.flatnonzero(excess):
            load = problem.load[mine, resource]
            fewest = max(fewest, fewest_bundles(load, int(excess[resource])))
            cheapest = max(cheapest, cheapest_sessions(load, problem.sessions[mine], int(excess[resource])))
        moves += fewest
        sessions += cheapest
        moved += np.maximum(excess, problem.load[forced].sum(axis=0))
    return PoolBounds(
        moves=moves,
        sessions=sessions,
        moved_load=vector(moved),
        total_load=vector(problem.load.sum(axis=0)),
        peak_ppb=vector(band.peak_ppb),
    )


def fewest_bundles(load: Ints, excess: int) -> int:
    """How many bundles must leave at least so that their load covers the excess; all where even that is too little."""
    covered = np.cumsum(np.sort(load)[::-1])
    return min(int(np.searchsorted(covered, excess)) + 1, len(load))


def cheapest_sessions(load: Ints, sessions: Ints, excess: int) -> int:
    """The fewest sessions that leave with a load of this size if bundles could be cut, rounded down."""
    carrying = np.flatnonzero(load > 0)
    order = carrying[np.lexsort((carrying, sessions[carrying] / load[carrying]))]
    left, price = excess, 0
    for row in order:
        part = min(left, int(load[row]))
        price += int(sessions[row]) * part // int(load[row])
        left -= part
        if not left:
            break
    return price


def _excess(problem: PoolProblem, band: Band, used: Ints, broker: int) -> Ints:
    if not problem.is_member[broker] or problem.must_be_emptied[broker]:
        return np.zeros(len(RESOURCES), dtype=np.int64)
    excess: Ints = np.maximum(used[broker] - band.loose_cap[broker], 0)
    return excess
