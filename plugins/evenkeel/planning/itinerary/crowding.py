"""Find the brokers without which an anti-affinity group would be crowded, whatever the order.

No state of a restart may have more bundles of a group on one broker, or in one failure domain, than the fullest broker
or domain had at the start. So while a broker is away, a set of others can hold no more of a group than these two peaks
allow.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenkeel.planning.explaining.words import list_some
from evenkeel.planning.itinerary.restart_problem import RestartProblem
from evenkeel.planning.itinerary.results import BrokerRefusal, RefusalKind
from evenkeel.planning.problem.anti_affinity import NO_GROUP
from evenkeel.planning.problem.columns import Bools, Ints


def find_crowded(problem: RestartProblem) -> Iterator[BrokerRefusal]:
    """Find the brokers of the restart whose absence leaves too little room for a group, by group and name."""
    owners = problem.owner[problem.group != NO_GROUP]
    groups = problem.group[problem.group != NO_GROUP]
    for group in np.unique(groups).tolist():
        rows = np.flatnonzero(problem.group == group)
        for broker in np.unique(owners[groups == group]).tolist():
            if problem.is_restarted[broker]:
                yield from _judge(problem, group, rows, broker)


def _judge(problem: RestartProblem, group: int, rows: Ints, broker: int) -> Iterator[BrokerRefusal]:
    without = problem.reach(rows)
    without[:, broker] = False
    on_broker = np.bincount(problem.owner[rows], minlength=len(problem.broker_ids))
    in_domain = np.bincount(problem.domain[problem.owner[rows]])
    sets = np.unique(without, axis=0)
    for members in [*sets, np.asarray(sets.any(axis=0))]:
        inside = int((~(without & ~members).any(axis=1) & without.any(axis=1)).sum())
        room = _room(problem, members, int(on_broker.max()), int(in_domain.max()))
        if inside > room:
            name = problem.broker_ids[broker]
            others = tuple(problem.broker_ids[row] for row in np.flatnonzero(members).tolist())
            reason = (
                f"without {name} the others ({list_some(others)}) must own {inside} bundles of anti-affinity group "
                f"{problem.group_names[group]}, and {room} is the most that crowds none of them more than today"
            )
            remedy = "add a broker, or take its namespaces out of the group for the restart"
            yield BrokerRefusal(name, RefusalKind.ANTI_AFFINITY, reason, remedy)
            return


def _room(problem: RestartProblem, members: Bools, broker_peak: int, domain_peak: int) -> int:
    brokers_in_domain = np.bincount(problem.domain[members])
    return int(np.minimum(brokers_in_domain * broker_peak, domain_peak).sum())
