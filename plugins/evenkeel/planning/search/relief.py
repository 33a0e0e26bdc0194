"""New owners for bundles: for those too large for every band, for those that must move, and for hot brokers' excess."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from evenkeel.planning.problem.anti_affinity import NO_GROUP
from evenkeel.planning.problem.columns import Floats, Ints
from evenkeel.planning.search.exchange import exchange
from evenkeel.planning.search.hot_brokers import choose_departures
from evenkeel.planning.search.placement import Placement

# An oversized bundle moves only if that lowers its broker's peak by at least this share.
WORTH_A_MOVE = 0.02

# At most this many of the bundles that found no owner are placed before all others, and only if they are large: if
# they take at least this share of their owner's cap.
MOST_PLACED_FIRST = 4
LARGE = 0.2

# The weight of a broker's fullness relative to how well its free capacity suits a bundle; tuned on many clusters.
FULLNESS_WEIGHT = 0.05
TINY = 1e-300
# How many arrivals are tried when one of them has to make room for a bundle, smallest first.
MOST_EXCHANGES = 64


def place_oversized(placement: Placement, tolerance: float) -> None:
    """Put each bundle that no broker can carry inside the band on the broker that it overfills the least.

    Such a bundle keeps its broker above the cap whatever else moves. The best outcome is the largest broker that may
    own it, and little else on that broker; aiming for the band there would cost moves and gain nothing. So the cap of
    that broker is raised to the bundle's own load plus the tolerance.
    """
    for row in _find_oversized(placement).tolist():
        host = _find_host(placement, row)
        if host != placement.owner[row]:
            placement.move(row, host)
        load = placement.problem.load[row]
        placement.raise_cap(host, np.where(load > placement.cap[host], np.ceil(load * (1 + tolerance)), 0))
        # It has the best host there is. Other bundles leave this broker; the oversized one would fit nowhere else.
        placement.free[row] = False


def _find_oversized(placement: Placement) -> Ints:
    """Find bundles that exceed, in some resource, the cap of every broker that may own them; largest first."""
    problem = placement.problem
    largest = np.zeros((len(problem.eligible), problem.load.shape[1]), dtype=np.int64)
    for kind, may_own in enumerate(problem.eligible):
        largest[kind] = placement.cap[may_own & placement.receives].max(axis=0, initial=0)
    is_oversized = (problem.load > largest[problem.eligibility_class]).any(axis=1)
    is_oversized &= (problem.load > placement.cap[problem.owner]).any(axis=1) | problem.must_move
    rows = np.flatnonzero(is_oversized & (placement.free | problem.must_move))
    size = (problem.load[rows] * placement.per_cap[problem.owner[rows]]).max(axis=1, initial=0.0)
    ordered: Ints = rows[np.lexsort((rows, -size))]
    return ordered


def _find_host(placement: Placement, row: int) -> int:
    """The present owner, unless another broker would be clearly less full and stay below its overload line."""
    problem = placement.problem
    owner, load = int(placement.owner[row]), problem.load[row]
    peak = (load * placement.per_cap).max(axis=1)
    candidates = placement.candidates(row) & placement.takes_part & (load <= placement.line).all(axis=1)
    others = np.where(candidates, peak, np.inf)
    # Among equal brokers, the one that carries the least has the least to give away.
    best = int(np.lexsort((np.arange(len(peak)), (placement.used * placement.per_cap).sum(axis=1), others))[0])
    must_leave = problem.must_move[row] and np.isfinite(others[best])
    return best if must_leave or others[best] < (1 - WORTH_A_MOVE) * peak[owner] else owner


def relieve(placement: Placement, prices: Floats) -> float:
    """Move bundles off hot brokers, and off owners that may not keep them.

    Returns the price of the cheapest bundles that could leave, which every plan has to pay. If all of them find an
    owner, no plan is cheaper. If not, brokers exchange bundles until they fit, and two alternatives are tried: let
    only bundles leave that fit somewhere as they are, or place the largest unplaced bundles first and let others make
    way for them. Which is best depends on the size of the unplaced bundles, so the best of the three is kept.
    """
    start = placement.owner.copy()
    leaving = _choose_leaving(placement, prices, must_fit=False)
    least_price = float(prices[leaving].sum())
    unplaced = _find_owners(placement, leaving)
    if not len(unplaced):
        return least_price
    best = _finish(placement, prices)
    for must_fit in (True, False):
        placement.restore(start)
        if not must_fit:
            _place_large_first(placement, unplaced)
        _find_owners(placement, _choose_leaving(placement, prices, must_fit=must_fit))
        best = min(best, _finish(placement, prices), key=lambda found: found.score)
    placement.restore(best.owner)
    return least_price


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The result of one alternative: how good it is, and who owns what."""

    score: tuple[float, float]
    owner: Ints


def _finish(placement: Placement, prices: Floats) -> _Attempt:
    """Exchange bundles until brokers fit, and undo what was not needed."""
    exchange(placement, prices)
    _undo_needless_moves(placement, prices)
    return _Attempt(placement.score(prices), placement.owner.copy())


def _place_large_first(placement: Placement, unplaced: Ints) -> None:
    """Give large bundles that fit nowhere to the brokers that they overfill the least; other bundles leave later."""
    problem = placement.problem
    size = (problem.load[unplaced] * placement.per_cap[problem.owner[unplaced]]).max(axis=1)
    order = np.lexsort((unplaced, -size))[:MOST_PLACED_FIRST]
    for row in unplaced[order][size[order] >= LARGE].tolist():
        # A broker that would be too small even when empty is no candidate.
        candidates = placement.candidates(row) & (problem.load[row] <= placement.receive_cap).all(axis=1)
        if candidates.any():
            now = np.maximum(placement.used - placement.receive_cap, 0)
            then = np.maximum(placement.used + problem.load[row] - placement.receive_cap, 0)
            # Relative to the bundle itself, so that brokers of different sizes compare.
            overfill = ((then - now) / np.maximum(problem.load[row], 1)).max(axis=1)
            placement.move(row, int(np.argmin(np.where(candidates, overfill, np.inf))))


def _choose_leaving(placement: Placement, prices: Floats, *, must_fit: bool) -> Ints:
    """Choose what leaves: every bundle that must move, and what hot brokers give up once those have left."""
    problem = placement.problem
    must_leave = np.flatnonzero(problem.must_move)
    for row in must_leave.tolist():
        placement.lift(row)
    may_leave = placement.free & ~problem.must_move & (placement.owner == problem.owner)
    leaving = choose_departures(placement, prices, may_leave, must_fit=must_fit)
    for row in must_leave.tolist():
        placement.put(row, int(placement.owner[row]))
    return np.sort(np.concatenate([must_leave, leaving]))


def _find_owners(placement: Placement, leaving: Ints) -> Ints:
    """Give bundles new owners; returns those that fit nowhere inside the band."""
    unplaced = _pack(placement, leaving)
    _place_below_line(placement, unplaced[placement.problem.must_move[unplaced]])
    return unplaced


def _pack(placement: Placement, rows: Ints) -> Ints:
    """Move bundles to brokers that stay below their caps, largest first; returns those that fit nowhere.

    All of them are taken off their owners before the first is placed, so that their capacity is free for others. A
    bundle that fits nowhere goes back to its owner.
    """
    problem = placement.problem
    for row in rows.tolist():
        placement.lift(row)
    size = (problem.load[rows] / np.maximum(problem.load.sum(axis=0), 1)).max(axis=1, initial=0.0)
    unplaced = []
    for row in rows[np.lexsort((rows, -size))].tolist():
        destination = _find_owner(placement, row, placement.receive_cap)
        if destination is None:
            unplaced.append(row)
        else:
            placement.put(row, destination)
    for row in unplaced:
        placement.put(row, int(placement.owner[row]))
    still = [row for row in unplaced if not _make_room(placement, row)]
    return np.array(sorted(still), dtype=np.int64)


def _make_room(placement: Placement, row: int) -> bool:
    """Move a bundle to a broker from which another arrival can go elsewhere; returns whether there was one.

    An arrival moves in any case, so sending it elsewhere costs nothing.
    """
    problem = placement.problem
    load = problem.load[row]
    arrivals = np.flatnonzero((placement.owner != problem.owner) & (problem.group == NO_GROUP))
    brokers = placement.owner[arrivals]
    fits = (placement.used[brokers] - problem.load[arrivals] + load <= placement.receive_cap[brokers]).all(axis=1)
    fits &= placement.candidates(row)[brokers]
    able = arrivals[fits]
    size = (problem.load[able] * placement.per_cap[placement.owner[able]]).max(axis=1, initial=0.0)
    for arrival in able[np.lexsort((able, size))][:MOST_EXCHANGES].tolist():
        broker = int(placement.owner[arrival])
        placement.move(row, broker)
        placement.lift(arrival)
        elsewhere = _find_owner(placement, arrival, placement.receive_cap)
        if elsewhere is not None:
            placement.put(arrival, elsewhere)
            return True
        placement.put(arrival, broker)
        placement.move(row, int(problem.owner[row]))
    return False


def _find_owner(placement: Placement, row: int, ceiling: Ints) -> int | None:
    """Find the best broker for a bundle that is on no broker at the moment; None if all would exceed the ceiling.

    For a bundle of an anti-affinity group, the failure domain with the fewest of the group comes first, then the
    broker with the fewest. Then the broker whose free capacity has the shape most similar to the bundle's load, so
    that a bundle that is heavy in one resource does not block capacity that others need; fuller brokers count a little
    less. Ties are broken by name.
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


def _place_below_line(placement: Placement, rows: Ints) -> None:
    """Place bundles that must move but fit into no band on a broker below its overload line, if there is one.

    A broker may exceed its cap up to the overload line, or up to what it carried before. If no broker with a known
    limit has room, one without a known limit will do: an owner of unknown capacity is better than a forbidden one.
    """
    ceiling = np.maximum(placement.line, placement.used_before)
    for row in rows.tolist():
        placement.lift(row)
        destination = _find_owner(placement, row, ceiling)
        if destination is None:
            destination = _find_owner_without_limit(placement, row)
        placement.put(row, int(placement.owner[row]) if destination is None else destination)


def _find_owner_without_limit(placement: Placement, row: int) -> int | None:
    """The eligible broker without a known limit that carries the least of the pool's load, the first among equals."""
    candidates = placement.candidates(row, placement.problem.can_receive & ~placement.receives)
    if not candidates.any():
        return None
    used = placement.used.sum(axis=1)
    return int(np.argmin(np.where(candidates, used, np.iinfo(np.int64).max)))


def _undo_needless_moves(placement: Placement, prices: Floats) -> None:
    """Undo every move that was not forced and whose bundle still fits below its first owner's cap; expensive first."""
    problem = placement.problem
    moved = np.flatnonzero((placement.owner != problem.owner) & ~problem.must_move)
    for row in moved[np.lexsort((moved, -prices[moved]))].tolist():
        first = int(problem.owner[row])
        if (placement.used[first] + problem.load[row] <= placement.cap[first]).all():
            placement.move(row, first)
