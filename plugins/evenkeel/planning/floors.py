"""The lowest peak that any placement of a pool could reach if bundles could be cut at will, and the band above it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import coo_array

from evenkeel.model.load import RESOURCES
from evenkeel.model.settings import Settings
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
    peaks = lowest_peaks(problem)
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


def lowest_peaks(problem: PoolProblem) -> tuple[int, ...]:
    """Per resource the least possible highest utilisation in parts per billion, rounded down.

    Only brokers that may receive and whose limit is known take part. What other brokers keep for good, because
    nothing moves it away, is left out, which can only lower the answer.
    """
    can_leave = problem.must_move
    peaks = []
    for resource in range(len(RESOURCES)):
        takes_part = problem.can_receive & (problem.limit[:, resource] > 0)
        counted = takes_part[problem.owner] | can_leave
        reachable = problem.eligible & takes_part
        class_load = np.zeros(len(reachable), dtype=np.int64)
        np.add.at(class_load, problem.eligibility_class[counted], problem.load[counted, resource])
        peaks.append(lowest_peak(class_load, reachable, problem.limit[:, resource]))
    return tuple(peaks)


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
