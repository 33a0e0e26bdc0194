"""The fewest moves that any itinerary needs, whatever the order and wherever the bundles go.

1. Every bundle on a broker that is restarted has to leave it: one move each, B in all.
2. Take a bundle that may only move to brokers that are restarted later than its owner. When it has left its owner, it
   is on one of these, and has to leave that one too: two moves.
3. In every order, one of a pool's brokers is the first. All bundles on it that may only move to brokers of the restart
   are bundles of the second kind. So an itinerary needs at least B + the smallest such number over the brokers that can
   be first; pools are added up.
4. Bundles whose candidates do not include that first broker have a first broker of their own among their candidates.
   Its share is added, at its smallest.

With equal limits, one class of bundles and no groups the bound is reached as soon as the other brokers have room for
the bundles of that first broker; docs/concepts/itineraries.md has the proof.
"""

from __future__ import annotations

import numpy as np

from evenkeel.planning.itinerary.restart_problem import RestartProblem
from evenkeel.planning.itinerary.results import MoveBound
from evenkeel.planning.problem.columns import Bools, Ints


def find_bound(problem: RestartProblem) -> MoveBound:
    """Compute the bound; it also holds for itineraries that move more than what leaves the broker of each stage."""
    rows = problem.departing
    pools = np.unique(problem.pool[rows]).tolist()
    return MoveBound(len(rows), sum(_least_second_moves(problem, rows[problem.pool[rows] == pool]) for pool in pools))


def count_captive(problem: RestartProblem) -> Ints:
    """For each broker, its bundles that may only move to brokers that are restarted too."""
    rows = problem.departing
    captive = rows[~(problem.destinations(rows) & ~problem.is_restarted).any(axis=1)]
    return np.bincount(problem.owner[captive], minlength=len(problem.broker_ids)).astype(np.int64)


def _least_second_moves(problem: RestartProblem, rows: Ints) -> int:
    """The fewest bundles of one pool that move twice, over all brokers that may be the pool's first."""
    brokers = len(problem.broker_ids)
    reach = problem.destinations(rows)
    is_captive = ~(reach & ~problem.is_restarted).any(axis=1) & reach.any(axis=1)
    rows, reach = rows[is_captive], reach[is_captive]
    if not len(rows):
        return 0
    reach[np.arange(len(rows)), problem.owner[rows]] = True
    families, of_row = np.unique(reach, axis=0, return_inverse=True)
    # Bundles per family, that is, set of candidates with the owner, and per owner.
    owned = np.zeros((len(families), brokers), dtype=np.int64)
    np.add.at(owned, (of_row.reshape(-1), problem.owner[rows]), 1)
    fewest = np.where(families, owned, len(rows)).min(axis=1)
    firsts = _possible_firsts(problem, np.asarray(families.any(axis=0)))
    return min(int(owned[:, first].sum() + fewest[~families[:, first]].sum()) for first in firsts)


def _possible_firsts(problem: RestartProblem, members: Bools) -> list[int]:
    """The brokers of a set that may come before the others of the set, given the fixed places."""
    fixed = np.flatnonzero(members & (problem.place > 0))
    earliest: list[int] = fixed[np.argsort(problem.place[fixed])][:1].tolist()
    if earliest and problem.place[earliest[0]] == 1:
        return earliest
    return [*earliest, *np.flatnonzero(members & (problem.place == 0)).tolist()]
