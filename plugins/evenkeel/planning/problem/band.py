"""The band: from the lowest peak that a pool could reach with divisible bundles, up to the tolerance above it.

It never ends below `min_utilisation`: nobody gains if a resource that is nearly idle is balanced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.model.settings import Settings
from evenkeel.planning.problem.anti_affinity import NO_GROUP, GroupCounts
from evenkeel.planning.problem.columns import UNLIMITED, Bools, Ints
from evenkeel.planning.problem.problem import PoolProblem

PPB = 1_000_000_000
# The solver's results are accurate to this many parts per billion, and are rounded down by as much.
SOLVER_ERROR_PPB = 10


@dataclass(frozen=True, slots=True)
class Band:
    """The most load inside the band, per broker and resource; unlimited if the limit is unknown.

    `peak_ppb` is the lowest reachable peak of each resource, in parts per billion of the limit, rounded down.
    `cap` is what the search aims for; `loose_cap` is rounded up, for bounds that must hold for every plan.
    """

    peak_ppb: tuple[int, ...]
    cap: Ints
    loose_cap: Ints


def find_band(problem: PoolProblem, settings: Settings) -> Band:
    """Compute the lowest reachable peak of each resource of a pool, and the band above it."""
    peaks = lowest_peaks(problem, find_repairable(problem, settings.broker_max_topics))
    factor_ppb, least_ppb = round((1 + settings.tolerance) * PPB), round(settings.min_utilisation * PPB)
    cap, loose = np.full_like(problem.limit, UNLIMITED), np.full_like(problem.limit, UNLIMITED)
    for broker, resource in np.argwhere((problem.limit > 0) & problem.is_member[:, None]):
        limit, peak = int(problem.limit[broker, resource]), peaks[resource]
        # A peak of 0 means that nothing of the resource has to be carried, or that no broker can; then there is no cap.
        if peak:
            loose_peak = peak + 2 * SOLVER_ERROR_PPB
            cap[broker, resource] = max(limit * peak * factor_ppb // PPB**2, limit * least_ppb // PPB)
            loose[broker, resource] = -min(-limit * loose_peak * factor_ppb // PPB**2, -limit * least_ppb // PPB)
    return Band(peaks, cap, loose)


def reference_peaks(peak_ppb: Ints, settings: Settings) -> Ints:
    """What utilisations are measured against, in parts per billion: the band ends at 1 + tolerance times these.

    That is the lowest peak, unless it is so low that `min_utilisation` decides. Where there is no peak there is no
    band, and nothing to measure against.
    """
    least = round(settings.min_utilisation * PPB) * PPB // round((1 + settings.tolerance) * PPB)
    return np.where(peak_ppb > 0, np.maximum(peak_ppb, least), 0)


def overload_caps(limit: Ints, settings: Settings) -> Ints:
    """The load at the overload line, per broker and resource; unlimited if the limit is unknown."""
    line_ppm = round(settings.broker_overloaded_threshold_percentage * 10_000)
    return np.where(limit > 0, limit * line_ppm // 1_000_000, UNLIMITED)


def find_repairable(problem: PoolProblem, topic_limit: int) -> Bools:
    """Find the bundles that must move and that some broker can take without breaking topic limit or anti-affinity."""
    repairable: Bools = problem.must_move.copy()
    if not repairable.any():
        return repairable
    topic_room = topic_limit - np.bincount(problem.owner, problem.topics, len(problem.broker_ids)).astype(np.int64)
    receivers = problem.eligible & problem.can_receive
    most_room = np.where(receivers, topic_room, 0).max(axis=1)
    repairable &= problem.topics < most_room[problem.eligibility_class]
    grouped = np.flatnonzero(repairable & (problem.group != NO_GROUP))
    groups = GroupCounts(problem.group, problem.owner, problem.domain)
    # Largest first, as in the search: if several bundles compete for a broker, the first one gets it.
    for row in grouped[np.argsort(-problem.load[grouped].max(axis=1), kind="stable")].tolist():
        group, owner = int(problem.group[row]), int(problem.owner[row])
        candidates = receivers[problem.eligibility_class[row]] & (problem.topics[row] < topic_room)
        candidates &= groups.has_room(group, owner)
        repairable[row] = candidates.any()
        if repairable[row]:
            groups.add(group, owner, int(np.argmax(groups.least_crowded(group, candidates))))
    return repairable


def lowest_peaks(problem: PoolProblem, leaving: Bools | None = None) -> tuple[int, ...]:
    """The lowest possible peak utilisation of each resource in parts per billion, rounded down.

    Only brokers that may receive and have a known limit take part. `leaving` are the bundles that leave owners that may
    not keep them; by default all that must move. Bundles that stay on other brokers are left out.
    """
    leaving = problem.must_move if leaving is None else leaving
    staying = problem.is_stranded & ~leaving
    return tuple(_spread(problem, resource, leaving, staying) for resource in range(len(RESOURCES)))


def certain_peaks(problem: PoolProblem, leaving: Bools) -> tuple[int, ...]:
    """A lower bound on the peak of each resource for every legal plan that moves the bundles of `leaving`.

    This planner never fills a broker without a known limit, but other plans may, so load that could go there is left
    out.
    """
    staying = problem.is_stranded & ~problem.must_move
    peaks = []
    for resource in range(len(RESOURCES)):
        is_unmeasured = problem.can_receive & (problem.limit[:, resource] <= 0)
        can_hide = np.asarray((problem.eligible & is_unmeasured).any(axis=1))[problem.eligibility_class]
        peaks.append(_spread(problem, resource, leaving, staying, can_hide))
    return tuple(peaks)


def _spread(problem: PoolProblem, resource: int, leaving: Bools, staying: Bools, left_out: Bools | None = None) -> int:
    """The lowest peak of one resource if all load is divisible, except `staying`, which stays where it is."""
    takes_part = problem.can_receive & (problem.limit[:, resource] > 0)
    is_carried = takes_part[problem.owner]
    is_spread = leaving | (is_carried & ~problem.is_stranded)
    if left_out is not None:
        is_spread &= ~left_out
    class_load = np.zeros(len(problem.eligible), dtype=np.int64)
    np.add.at(class_load, problem.eligibility_class[is_spread], problem.load[is_spread, resource])
    kept = np.flatnonzero(is_carried & staying)
    owners, place = np.unique(problem.owner[kept], return_inverse=True)
    kept_load = np.zeros(len(owners), dtype=np.int64)
    np.add.at(kept_load, place, problem.load[kept, resource])
    # The bundles that stay form one class per owner.
    reachable = np.vstack([problem.eligible & takes_part, owners[:, None] == np.arange(len(takes_part))])
    return lowest_peak(np.concatenate([class_load, kept_load]), reachable, problem.limit[:, resource])


def lowest_peak(class_load: Ints, eligible: Bools, limit: Ints) -> int:
    """The lowest peak of one resource if the load of class k is spread freely over the brokers of `eligible[k]`."""
    used_rows = np.flatnonzero((class_load > 0) & eligible.any(axis=1))
    class_load, eligible = class_load[used_rows], eligible[used_rows]
    if not len(used_rows):
        return 0
    sets: dict[bytes, int] = {}
    for row, members in enumerate(eligible):
        sets[members.tobytes()] = sets.get(members.tobytes(), 0) + int(class_load[row])
    everyone = eligible.any(axis=0)
    evenly = sum(sets.values()) * PPB // int(limit[everyone].sum())
    alone = [load * PPB // int(limit[np.frombuffer(key, dtype=bool)].sum()) for key, load in sets.items()]
    if len(sets) == 1:
        return evenly
    solved = _solve_spread(list(sets.values()), [np.frombuffer(key, dtype=bool) for key in sets], limit)
    # Both simple bounds are exact; the program only adds what overlapping classes force.
    return max(evenly, *alone, solved)


def _solve_spread(loads: Sequence[int], members: Sequence[Bools], limit: Ints) -> int:
    """Solve the linear program: the least t such that every broker's load is at most t times its limit."""
    # Imported here: the verifier needs the band of few pools by a program, and scipy takes long to import.
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    brokers = np.flatnonzero(np.logical_or.reduce(members))
    place = {int(broker): row for row, broker in enumerate(brokers)}
    total, capacity = float(sum(loads)), limit[brokers] / float(limit[brokers].sum())
    pairs = [(row, place[int(b)]) for row, member in enumerate(members) for b in np.flatnonzero(member)]
    classes, places = np.array(pairs).T
    columns = np.arange(1, len(pairs) + 1)
    values = np.concatenate([np.ones(len(pairs)), -capacity])
    at_most = coo_array(
        (values, (np.concatenate([places, np.arange(len(brokers))]), np.append(columns, [0] * len(brokers)))),
        shape=(len(brokers), len(pairs) + 1),
    )
    equal = coo_array((np.ones(len(pairs)), (classes, columns)), shape=(len(loads), len(pairs) + 1))
    cost = np.zeros(len(pairs) + 1)
    cost[0] = 1.0
    solved = linprog(
        cost,
        A_ub=at_most.tocsr(),
        b_ub=np.zeros(len(brokers)),
        A_eq=equal.tocsr(),
        b_eq=np.array(loads) / total,
        method="highs",
    )
    if solved.status != 0:
        return 0
    peak = float(solved.x[0]) * total / float(limit[brokers].sum())
    return max(0, int(peak * PPB) - SOLVER_ERROR_PPB)
