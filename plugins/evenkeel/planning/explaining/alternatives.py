"""What else could have been moved, and where else it could have gone: the figures behind the reason of a move."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenkeel.planning.anti_affinity import NO_GROUP
from evenkeel.planning.arrays import Bools, Floats, Ints
from evenkeel.planning.search.placement import Placement

# Moves are compared with all brokers this many at a time, so that memory stays small.
MOVES_AT_A_TIME = 1024


@dataclass(frozen=True, slots=True)
class Rivals:
    """For each move what the other bundles of its source would have been worth.

    `resource` is the one that speaks for the move: the excess of the source of which the bundle takes off the largest
    part, or what it needs most of. `may_move` counts the bundles of the source that may move, itself included,
    `larger` those of them that carry more of the resource, `cheaper` those with fewer sessions for what they carry.
    """

    resource: Ints
    helps: Bools
    may_move: Ints
    larger: Ints
    cheaper: Ints


@dataclass(frozen=True, slots=True)
class Homes:
    """For each move where the bundle could have gone, seen from the end of the plan.

    `possible` counts the other brokers that may own it, `open` those of them with room for it besides what the plan
    brings there, the chosen one included, `better` those that would end less full with it than the chosen one does.
    `is_inside` says whether the chosen one itself ends below what it may be filled up to.
    """

    possible: Ints
    open: Ints
    better: Ints
    is_inside: Bools


def compare_bundles(placement: Placement, rows: Ints) -> Rivals:
    """Rank each of these moved bundles among those that its source could have given away instead."""
    problem = placement.problem
    source = problem.owner[rows]
    excess = np.maximum(placement.used_before - placement.cap, 0)
    excess[~placement.takes_part] = 0
    helps: Bools = excess[source].any(axis=1) & ~problem.must_move[rows]
    resource = np.where(
        helps,
        _largest(problem.load[rows], excess[source]),
        _largest(problem.load[rows], problem.limit[placement.owner[rows]]),
    )
    may_move, larger, cheaper = (np.zeros(len(rows), dtype=np.int64) for _ in range(3))
    by_owner = np.argsort(problem.owner, kind="stable")
    ends = np.searchsorted(problem.owner[by_owner], np.arange(len(problem.broker_ids) + 1))
    for broker in np.unique(source[helps]).tolist():
        rivals = by_owner[ends[broker] : ends[broker + 1]]
        rivals = rivals[placement.free[rivals]]
        moved = np.flatnonzero(helps & (source == broker))
        may_move[moved] = len(rivals)
        for kind in np.unique(resource[moved]).tolist():
            mine = moved[resource[moved] == kind]
            load, own = problem.load[rivals, kind], problem.load[rows[mine], kind]
            price = problem.sessions[rivals] / np.maximum(load, 1)
            own_price = problem.sessions[rows[mine]] / np.maximum(own, 1)
            larger[mine] = len(load) - np.searchsorted(np.sort(load), own, side="right")
            cheaper[mine] = np.searchsorted(np.sort(price[load > 0]), own_price, side="left")
    return Rivals(resource, helps, may_move, larger, cheaper)


def compare_brokers(placement: Placement, rows: Ints) -> Homes:
    """Rank the new owner of each of these moved bundles among those that could have got it instead."""
    parts = [
        _compare_some(placement, rows[start : start + MOVES_AT_A_TIME])
        for start in range(0, max(len(rows), 1), MOVES_AT_A_TIME)
    ]
    return Homes(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _compare_some(placement: Placement, rows: Ints) -> tuple[Ints, Ints, Ints, Bools]:
    problem = placement.problem
    moves, chosen = np.arange(len(rows)), placement.owner[rows]
    possible = problem.destinations(rows) & placement.receives
    possible[moves, problem.owner[rows]] = False
    is_open = possible & _has_room(placement.receive_cap - placement.used, problem.load[rows])
    for move in np.flatnonzero(problem.group[rows] != NO_GROUP).tolist():
        row = int(rows[move])
        is_open[move] &= placement.groups.has_room(int(problem.group[row]), int(problem.owner[row]))
    # The chosen one carries the bundle already.
    is_open[moves, chosen] = True
    part_of_cap = 1.0 / np.maximum(placement.cap, 1)
    fullness = (placement.used * part_of_cap).max(axis=1)
    with_it = _fullness_with(placement.used * part_of_cap, part_of_cap, problem.load[rows])
    better = is_open & (with_it < fullness[chosen][:, None])
    better[moves, chosen] = False
    is_inside = np.logical_and.reduce(placement.used <= placement.receive_cap, axis=1)
    return possible.sum(axis=1), is_open.sum(axis=1), better.sum(axis=1), is_inside[chosen]


def _fullness_with(shares: Floats, part_of_cap: Floats, load: Ints) -> Floats:
    """How full each broker would be with each of these loads on top, in its fullest resource."""
    fullness = np.zeros((len(load), len(shares)))
    for resource in range(shares.shape[1]):
        np.maximum(fullness, load[:, resource, None] * part_of_cap[:, resource] + shares[:, resource], out=fullness)
    return fullness


def _has_room(room: Ints, load: Ints) -> Bools:
    """For each load and each broker whether it fits, resource by resource."""
    fits = np.ones((len(load), len(room)), dtype=bool)
    for resource in range(room.shape[1]):
        fits &= load[:, resource, None] <= room[None, :, resource]
    return fits


def _largest(load: Ints, whole: Ints) -> Ints:
    """For each row the resource of which the load is the largest part; what has no whole takes no part."""
    resource: Ints = np.argmax(np.where(whole > 0, load / np.maximum(whole, 1), -1.0), axis=1)
    return resource
