"""The lowest peak that any placement of a pool could reach if bundles could be cut at will, and the band above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from evenkeel.model.load import RESOURCES
from evenkeel.model.settings import Settings
from evenkeel.planning.anti_affinity import NO_GROUP, GroupCounts
from evenkeel.planning.arrays import UNLIMITED, Bools, Ints
from evenkeel.planning.problem import PoolProblem

PPB = 1_000_000_000
# The solver's answers are trusted to this many parts per billion, and rounded down by as much.
SOLVER_ERROR_PPB = 10


@dataclass(frozen=True, slots=True)
class Band:
    """Per broker and resource the most load inside the band; where the limit is unknown there is none.

    `peak_ppb` is the lowest reachable peak of each resource, in parts per billion of the limit, rounded down.
    `cap` is what the planner aims below; `loose_cap` is rounded up, for bounds that must hold for any plan.
    """

    peak_ppb: tuple[int, ...]
    cap: Ints
    loose_cap: Ints


def find_band(problem: PoolProblem, settings: Settings) -> Band:
    """Compute the lowest reachable peak of each resource of a pool, and the band above it."""
    peaks = lowest_peaks(problem, find_repairable(problem, settings.broker_max_topics))
    factor_ppb = round((1 + settings.tolerance) * PPB)
    cap, loose = np.full_like(problem.limit, UNLIMITED), np.full_like(problem.limit, UNLIMITED)
    for broker, resource in np.argwhere((problem.limit > 0) & problem.is_member[:, None]):
        limit, peak = int(problem.limit[broker, resource]), peaks[resource]
        # Where nothing of a resource has to be carried, or nobody can, there is nothing to be above.
        if peak:
            cap[broker, resource] = limit * peak * factor_ppb // PPB**2
            loose[broker, resource] = -(-limit * (peak + 2 * SOLVER_ERROR_PPB) * factor_ppb // PPB**2)
    return Band(peaks, cap, loose)


def overload_caps(limit: Ints, settings: Settings) -> Ints:
    """Per broker and resource the load at the overload line; no line where the limit is unknown."""
    line_ppm = round(settings.broker_overloaded_threshold_percentage * 10_000)
    return np.where(limit > 0, limit * line_ppm // 1_000_000, UNLIMITED)


def find_repairable(problem: PoolProblem, topic_limit: int) -> Bools:
    """Of the bundles that must move those that some broker can take by its topics and by anti-affinity groups."""
    repairable: Bools = problem.must_move.copy()
    if not repairable.any():
        return repairable
    topic_room = topic_limit - np.bincount(problem.owner, problem.topics, len(problem.broker_ids)).astype(np.int64)
    receivers = problem.eligible & problem.can_receive
    most_room = np.where(receivers, topic_room, 0).max(axis=1)
    repairable &= problem.topics < most_room[problem.eligibility_class]
    grouped = np.flatnonzero(repairable & (problem.group != NO_GROUP))
    groups = GroupCounts(problem.group, problem.owner, problem.domain)
    # Largest first, as the search does it: what several ask for together, the first of them gets.
    for row in grouped[np.argsort(-problem.load[grouped].max(axis=1), kind="stable")].tolist():
        group, owner = int(problem.group[row]), int(problem.owner[row])
        candidates = receivers[problem.eligibility_class[row]] & (problem.topics[row] < topic_room)
        candidates &= groups.has_room(group, owner)
        repairable[row] = candidates.any()
        if repairable[row]:
            groups.add(group, owner, int(np.argmax(groups.least_crowded(group, candidates))))
    return repairable


def lowest_peaks(problem: PoolProblem, leaving: Bools | None = None) -> tuple[int, ...]:
    """Per resource the least possible highest utilisation in parts per billion, rounded down.

    Only brokers that may receive and whose limit is known take part. `leaving` are the bundles that leave owners that
    may not keep them: all that must, unless told. What other brokers keep for good is left out.
    """
    leaving = problem.must_move if leaving is None else leaving
    staying = problem.is_stranded & ~leaving
    return tuple(_spread(problem, resource, leaving, staying) for resource in range(len(RESOURCES)))


def certain_peaks(problem: PoolProblem, leaving: Bools) -> tuple[int, ...]:
    """Per resource a peak that no legal plan is below which moves the bundles of `leaving`.

    The planner fills no broker whose limit is unknown, but others may: whatever could go there does not count here.
    """
    staying = problem.is_stranded & ~problem.must_move
    peaks = []
    for resource in range(len(RESOURCES)):
        is_unmeasured = problem.can_receive & (problem.limit[:, resource] <= 0)
        can_hide = np.asarray((problem.eligible & is_unmeasured).any(axis=1))[problem.eligibility_class]
        peaks.append(_spread(problem, resource, leaving, staying, can_hide))
    return tuple(peaks)


def _spread(problem: PoolProblem, resource: int, leaving: Bools, staying: Bools, left_out: Bools | None = None) -> int:
    """The lowest peak of one resource if all load is cut at will, but for `staying`, which weighs where it is."""
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
    # What stays is a class of its own for each owner.
    reachable = np.vstack([problem.eligible & takes_part, owners[:, None] == np.arange(len(takes_part))])
    return lowest_peak(np.concatenate([class_load, kept_load]), reachable, problem.limit[:, resource])


def lowest_peak(class_load: Ints, eligible: Bools, limit: Ints) -> int:
    """The lowest peak of one resource: class k's load may be spread at will over the brokers of `eligible[k]`."""
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
    # Both simple bounds hold as well, and are exact; the program only adds what overlapping classes force.
    return max(evenly, *alone, solved)


def _solve_spread(loads: Sequence[int], members: Sequence[Bools], limit: Ints) -> int:
    """The linear program: least t with every broker's load at most t times its limit."""
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
    answer = linprog(
        cost,
        A_ub=at_most.tocsr(),
        b_ub=np.zeros(len(brokers)),
        A_eq=equal.tocsr(),
        b_eq=np.array(loads) / total,
        method="highs",
    )
    if answer.status != 0:
        return 0
    peak = float(answer.x[0]) * total / float(limit[brokers].sum())
    return max(0, int(peak * PPB) - SOLVER_ERROR_PPB)
