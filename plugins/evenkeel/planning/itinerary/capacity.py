"""Prove N+1 capacity: for each broker, whether the others can carry its pool's load below the overload line.

While a broker is away, each bundle is on a broker that may receive it, or still on its owner. So the load of all
bundles that can only be inside a set of brokers must fit on that set. The rows hold the fullest of these sets for each
broker and resource. A row that does not hold therefore rules out every itinerary. That all rows hold is necessary, not
sufficient: bundles cannot be divided, and a broker has three resources. The itinerary itself shows that it was enough.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.model.settings import Settings
from evenkeel.planning.itinerary.restart_problem import RestartProblem
from evenkeel.planning.itinerary.results import CapacityProof, CapacityRow
from evenkeel.planning.problem.band import overload_caps
from evenkeel.planning.problem.columns import Bools, Ints

# Unions of candidate sets are all examined up to this many sets; with more, only some of them.
MOST_COMBINED_SETS = 6


def prove_capacity(problem: RestartProblem, settings: Settings) -> CapacityProof:
    """Judge every broker of the restart, by name."""
    reach, load = _group_by_reach(problem)
    line = overload_caps(problem.limit, settings)
    rows = [
        row
        for broker in np.flatnonzero(problem.is_restarted).tolist()
        for resource in range(len(RESOURCES))
        for row in _judge(problem, line, reach, load, broker, resource)
    ]
    return CapacityProof(settings.broker_overloaded_threshold_percentage, tuple(rows))


def _group_by_reach(problem: RestartProblem) -> tuple[Bools, Ints]:
    """The distinct sets of brokers on which bundles can be, and the load of the bundles of each set."""
    reach = problem.reach(np.arange(len(problem.bundles)))
    sets, of_row = np.unique(reach, axis=0, return_inverse=True)
    load = np.zeros((len(sets), len(RESOURCES)), dtype=np.int64)
    np.add.at(load, of_row.reshape(-1), problem.load)
    return sets, load


def _judge(
    problem: RestartProblem, line: Ints, reach: Bools, load: Ints, broker: int, resource: int
) -> Iterator[CapacityRow]:
    limit = problem.limit[:, resource]
    without = _without(reach, broker)
    is_left = without.any(axis=1)
    without, load = without[is_left], load[is_left]
    rows = []
    for members in _candidate_sets(reach, broker, problem.takes_part):
        if (limit[members] <= 0).any():
            continue
        inside = int(load[~(without & ~members).any(axis=1), resource].sum())
        rows.append((members, inside, int(limit[members].sum()), int(line[members, resource].sum())))
    if rows:
        # A set that does not hold goes before one that does; then the fullest.
        members, inside, total, cap = max(rows, key=lambda row: (row[1] > row[3], row[1] / row[2]))
        pool = int(problem.pool_of_broker[broker])
        others = tuple(problem.broker_ids[row] for row in np.flatnonzero(members).tolist())
        name = problem.pools[pool] if pool >= 0 else ""
        yield CapacityRow(problem.broker_ids[broker], name, RESOURCES[resource], others, inside, total, cap)


def _candidate_sets(reach: Bools, broker: int, takes_part: Bools) -> list[Bools]:
    """The sets of brokers that may become too small without this one: sets that lose it, and unions with these."""
    losing = np.unique(_without(reach[reach[:, broker]], broker), axis=0)
    losing = losing[losing.any(axis=1)]
    if not len(losing):
        return []
    everyone = losing.any(axis=0)
    # Bundles that can be on one broker only are counted with any set that holds it. Brokers that take no part may be
    # above the line, so a set with one of them proves nothing.
    is_touching = ~reach[:, broker] & (reach & everyone).any(axis=1) & (reach.sum(axis=1) > 1)
    touching = reach[is_touching & ~(reach & ~takes_part).any(axis=1)]
    sets = [*losing, *touching]
    if len(sets) > MOST_COMBINED_SETS:
        return [*losing, everyone, everyone | touching.any(axis=0)]
    return [
        np.logical_or.reduce([sets[row] for row in chosen])
        for size in range(1, len(sets) + 1)
        for chosen in combinations(range(len(sets)), size)
        if chosen[0] < len(losing)
    ]


def _without(sets: Bools, broker: int) -> Bools:
    rest = sets.copy()
    rest[:, broker] = False
    return rest
