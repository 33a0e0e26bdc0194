"""Bundles that may be too big for any broker of their pool: which come into question, by sums alone.

Which bundle is too big is known only where its pool's band is, inside the pool's planner. The few bundles that come
into question are found before that, each with its cut, and the planner splits those of them that its band calls too
big. They are few: a bundle in question carries half of the fair share of its pool's weakest broker, so that the
brokers of a pool of equals cannot hold more than two each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from evenkeel.model.load import MILLI, RESOURCES, SplitCandidate
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.pools import PoolAssignment
from evenkeel.planning.problem import limits_of
from evenkeel.planning.splitting.boundaries import Cut
from evenkeel.planning.splitting.choice import TOO_BIG

# The band leaves out load on brokers that cannot take part in balancing; even so it is seldom below this part.
PART_OF_FAIR_SHARE = 0.5


def sizes_in_question(
    carried: Mapping[str, Sequence[int]], pools: PoolAssignment, brokers: Sequence[Broker], settings: Settings
) -> Mapping[str, tuple[float, ...]]:
    """Per pool and resource the load above which a bundle comes into question; endless where no limit is known.

    `carried` is what the bundles of each namespace carry together.
    """
    load_of_pool: dict[str, list[int]] = defaultdict(lambda: [0] * len(RESOURCES))
    for namespace, loads in carried.items():
        pool = pools.pool_of_namespace.get(namespace)
        if pool is not None:
            load_of_pool[pool] = [sum(pair) for pair in zip(load_of_pool[pool], loads, strict=True)]
    limits: dict[str, list[list[int]]] = defaultdict(list)
    for broker, limit in zip(brokers, limits_of(brokers, settings).tolist(), strict=True):
        pool = pools.pool_of_broker.get(broker.broker_id)
        if pool is not None and broker.state == BrokerState.ACTIVE:
            limits[pool].append(limit)
    return {
        pool: tuple(
            _size_in_question(load, [limit[place] for limit in limits[pool] if limit[place]])
            for place, load in enumerate(load_of_pool[pool])
        )
        for pool in sorted(set(load_of_pool) & set(limits))
    }


def large_candidate(
    namespace: str,
    bundle: str,
    topics: int,
    sessions: int,
    msg_rate_millis: int,
    throughput: int,
    namespace_bundles: int,
    cut: Cut,
) -> SplitCandidate:
    """A bundle in question as a candidate, which has neither hits nor a rank."""
    return SplitCandidate(
        namespace=namespace,
        bundle=bundle,
        reason=TOO_BIG,
        hits=0,
        topics=topics,
        sessions=sessions,
        msg_rate_per_s=msg_rate_millis / MILLI,
        throughput_bytes_per_s=float(throughput),
        rank=0,
        namespace_bundles=namespace_bundles,
        **asdict(cut),
    )


def _size_in_question(load: int, limits: Sequence[int]) -> float:
    return PART_OF_FAIR_SHARE * load * min(limits) / sum(limits) if limits else float("inf")
