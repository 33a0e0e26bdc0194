"""Plans a whole cluster in this process, pool by pool, for what-if questions that are not worth a Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from evenkeel.model.load import SplitCandidate
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.pool_plan import PoolPlan
from evenkeel.planning.pool_planner import plan_pool
from evenkeel.planning.pools import assign_pools, live_broker_ids
from evenkeel.planning.problem import PoolProblem, build_problem


def solve_cluster(
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    candidates: Sequence[SplitCandidate] = (),
) -> list[PoolPlan]:
    """The plans of all pools in order of their names, as the executors of a Spark job would make them."""
    return [
        plan_pool(pool, brokers, rows, policies, settings, candidates)
        for pool, rows in cut_into_pools(brokers, bundles, policies)
    ]


def pool_problems(
    brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> Iterator[PoolProblem]:
    """The problems of all pools in order of their names."""
    for pool, rows in cut_into_pools(brokers, bundles, policies):
        yield build_problem(pool, brokers, rows, policies, settings)


def cut_into_pools(
    brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies
) -> Iterator[tuple[str, BundleColumns]]:
    """Cut a cluster into pools; each gets its own bundles, and the strangers on its brokers as load that stays."""
    assignment = assign_pools(set(bundles.namespace), live_broker_ids(brokers), policies)
    home = np.array([assignment.pool_of_namespace[name] for name in bundles.namespace], dtype=object)
    host = np.array([assignment.pool_of_broker.get(owner) for owner in bundles.owner], dtype=object)
    for pool in sorted({*assignment.pool_of_broker.values(), *assignment.pool_of_namespace.values()}):
        yield pool, bundles.take(np.flatnonzero((home == pool) | (host == pool)))
