"""Lists the largest loads of brokers above their band, from which the fewest moves for any looser band follow."""

from __future__ import annotations

import numpy as np

from evenkeel.planning.arrays import Ints
from evenkeel.planning.floors import Band
from evenkeel.planning.problem import PoolProblem
from evenkeel.planning.search.hot_brokers import rows_by_owner
from evenkeel.planning.search.knapsack import fewest_to_cover

LargestLoads = tuple[tuple[int, ...], ...]


def largest_loads(problem: PoolProblem, band: Band) -> list[LargestLoads]:
    """Per broker and resource the largest loads, in falling order, as many as cover what lies above the band.

    Of a broker that belongs to another pool all loads are listed: only that pool knows how much is too much.
    """
    excess = np.maximum(problem.used(problem.owner) + problem.background - band.cap, 0)
    excess[~problem.is_member] = problem.load.sum(axis=0)
    owned = rows_by_owner(problem.owner, len(problem.broker_ids))
    return [
        tuple(
            _largest(problem.load[owned[broker], resource], int(most)) for resource, most in enumerate(excess[broker])
        )
        for broker in range(len(problem.broker_ids))
    ]


def _largest(load: Ints, excess: int) -> tuple[int, ...]:
    if not excess:
        return ()
    falling = np.sort(load[load > 0])[::-1]
    return tuple(falling[: fewest_to_cover(np.cumsum(falling), excess)].tolist())
