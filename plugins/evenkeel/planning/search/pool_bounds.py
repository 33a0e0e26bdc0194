"""A bound for a whole small pool: the integer program of all its moves, as far as it can be searched."""

from __future__ import annotations

import math

import numpy as np
from scipy.sparse import coo_array

from evenkeel.model.load import RESOURCES
from evenkeel.planning.arrays import UNLIMITED, Bools, Floats, Ints
from evenkeel.planning.floors import Band
from evenkeel.planning.problem import PoolProblem
from evenkeel.planning.search.programs import Program, solve_whole, whole_bound

# Beyond this many choices of a new owner the search would prove little in reasonable time.
MOST_CHOICES = 5_000
# The bound of a search that has found no answer yet is not told, so that such a search is made longer.
NODES = (20, 400)
RESOURCE_COUNT = len(RESOURCES)


def bound_pool(problem: PoolProblem, band: Band, forced: Bools, price: Ints) -> int:
    """The least price of any moves that bring the pool into its band; 0 where it is too large to say.

    `forced` are the bundles that any plan moves. Every bundle may go to every broker that may receive it. Rules that
    could forbid more (anti-affinity, topics, exclusion) are left out, which can only lower the answer.
    """
    if not len(problem.bundles) or len(problem.bundles) * int(problem.can_receive.sum()) > MOST_CHOICES:
        return 0
    may_own = problem.destinations(np.arange(len(problem.bundles)))
    may_own[np.arange(len(problem.bundles)), problem.owner] = False
    row, target = np.nonzero(may_own)
    if not len(row):
        return 0
    program = _build_program(problem, band, forced, price, row, target)
    bounds = (solve_whole(program, nodes).bound for nodes in NODES)
    return whole_bound(next(filter(math.isfinite, bounds), -math.inf))


def _build_program(problem: PoolProblem, band: Band, forced: Bools, price: Ints, row: Ints, target: Ints) -> Program:
    brokers, bundles, count = len(problem.broker_ids), len(problem.bundles), len(row)
    is_capped: Bools = (band.loose_cap < UNLIMITED) & (problem.is_member & ~problem.must_be_emptied)[:, None]
    cap = np.maximum(band.loose_cap, 1).astype(np.float64)
    load, source = problem.load[row], problem.owner[row]
    rows, columns, values = [], [], []
    for resource in range(RESOURCE_COUNT):
        for place, sign in ((target, 1.0), (source, -1.0)):
            rows.append(place * RESOURCE_COUNT + resource)
            columns.append(np.arange(count))
            values.append(sign * load[:, resource] / cap[place, resource] * is_capped[place, resource])
    # Each bundle goes to one broker at most, and one that is forced to one at least.
    must = forced[row]
    rows += [brokers * RESOURCE_COUNT + row, brokers * RESOURCE_COUNT + bundles + row[must]]
    columns += [np.arange(count), np.flatnonzero(must)]
    values += [np.ones(count), -np.ones(int(must.sum()))]
    room: Floats = np.where(is_capped, (band.loose_cap - problem.used(problem.owner)) / cap, 1.0)
    has_choice = np.isin(np.arange(bundles), row)
    limit = np.concatenate([room.ravel(), np.ones(bundles), np.where(forced & has_choice, -1.0, 0.0)])
    entries = (np.concatenate(values), (np.concatenate(rows), np.concatenate(columns)))
    matrix = coo_array(entries, shape=(len(limit), count))
    return Program(price[row].astype(np.float64), matrix.tocsr(), limit, np.ones(count), np.ones(count, dtype=bool))
