"""Plans a whole cluster in this process, pool by pool, for what-if questions that are not worth a Spark job."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from evenkeel.model.bundles import BundleName
from evenkeel.model.load import SplitCandidate
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.pool_plan import PoolPlan
from evenkeel.planning.pool_planner import plan_pool
from evenkeel.planning.pools import assign_pools, live_broker_ids
from evenkeel.planning.problem import PoolProblem, build_problem, number
from evenkeel.planning.search.optimiser import Certifier
from evenkeel.planning.splitting.boundaries import NO_TOPICS, find_cut
from evenkeel.planning.splitting.choice import FEWEST_TOPICS
from evenkeel.planning.splitting.large_bundles import large_candidate, sizes_in_question


def solve_cluster(
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    candidates: Sequence[SplitCandidate] = (),
    certifier: Certifier | None = None,
) -> list[PoolPlan]:
    """The plans of all pools in order of their names, as the executors of a Spark job would make them."""
    return [
        plan_pool(pool, brokers, rows, policies, settings, candidates, certifier=certifier)
        for pool, rows in cut_into_pools(brokers, bundles, policies)
    ]


def find_large_bundles(
    brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> list[SplitCandidate]:
    """The bundles that may be too big for any broker, as the Spark job finds them in a snapshot without topics."""
    namespaces, namespace_of_row = number(bundles.namespace)
    loads = bundles.loads()
    carried = np.zeros((len(namespaces), loads.shape[1]), dtype=np.int64)
    np.add.at(carried, namespace_of_row, loads)
    pools = assign_pools(namespaces, live_broker_ids(brokers), policies)
    by_pool = sizes_in_question(dict(zip(namespaces, carried.tolist(), strict=True)), pools, brokers, settings)
    endless = (np.inf,) * loads.shape[1]
    sizes = np.array([by_pool.get(pools.pool_of_namespace[name], endless) for name in namespaces])
    is_large = (loads > sizes[namespace_of_row]).any(axis=1) & (bundles.topics >= FEWEST_TOPICS)
    in_namespace = np.bincount(namespace_of_row, minlength=len(namespaces))
    found = []
    for row in np.flatnonzero(is_large).tolist():
        name = str(bundles.bundle[row])
        cut = find_cut(BundleName.parse(name).range, NO_TOPICS)
        if cut is not None:
            found.append(
                large_candidate(
                    namespace=str(bundles.namespace[row]),
                    bundle=name,
                    topics=int(bundles.topics[row]),
                    sessions=int(bundles.sessions[row]),
                    msg_rate_millis=int(bundles.msg_rate_millis[row]),
                    throughput=int(bundles.throughput_in[row] + bundles.throughput_out[row]),
                    namespace_bundles=int(in_namespace[namespace_of_row[row]]),
                    cut=cut,
                )
            )
    return sorted(found, key=lambda candidate: candidate.bundle)


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
