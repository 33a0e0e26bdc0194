"""Bundles that may be too big for any broker, each with its best cut, so that a pool's planner can split them.

Which bundle is too big is known only where its pool's band is: inside the pool's planner, on an executor. The cut needs
topics, which no planner has. So the few bundles that come into question are found here by sums alone, with their cuts,
and each planner splits those of them that its band calls too big.

They are few: a bundle in question carries half of the fair share of its pool's weakest broker, so that the brokers of
a pool of equals cannot hold more than two each.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from evenkeel.model.load import MILLI, RESOURCES, SplitCandidate
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.pools import PoolAssignment
from evenkeel.planning.problem import limits_of
from evenkeel.planning.splitting.choice import TOO_BIG
from evenkeel_spark.cuts import find_cuts
from evenkeel_spark.transforms.split_candidates import FEWEST_TOPICS
from evenkeel_spark.transforms.transfers import PlanningInputs

# Columns of the planning loads, in the order of RESOURCES.
LOADS = ("cpu_millipercent", "throughput_in", "throughput_out")
# The band leaves out load on brokers that cannot take part in balancing; even so it is seldom below this part.
PART_OF_FAIR_SHARE = 0.5


def namespace_totals(loads: DataFrame) -> list[Row]:
    """The bundles of each namespace, idle ones included, and what they carry together; namespaces are few."""
    sums = (F.coalesce(F.sum(load), F.lit(0)).alias(load) for load in LOADS)
    is_owned = F.count("owner").alias("owned")
    return loads.groupBy("namespace").agg(F.count("*").alias("bundles"), is_owned, *sums).collect()


def find_large_bundles(
    bundles: DataFrame,
    topics: DataFrame,
    totals: Sequence[Row],
    pools: PoolAssignment,
    inputs: PlanningInputs,
) -> list[SplitCandidate]:
    """The owned bundles with two topics or more that may be too big for any broker of their pool."""
    limits = limits_of(inputs.brokers, inputs.settings).tolist()
    sizes = _sizes_in_question(totals, pools, inputs.brokers, limits)
    known = {candidate.bundle for candidate in inputs.split_candidates}
    rows = [
        (row["namespace"], row["bundles"], *sizes[pools.pool_of_namespace[row["namespace"]]])
        for row in totals
        if pools.pool_of_namespace.get(row["namespace"]) in sizes
    ]
    if not rows:
        return []
    columns = ", ".join(f"{load}_size double" for load in LOADS)
    questions = bundles.sparkSession.createDataFrame(rows, f"namespace string, namespace_bundles long, {columns}")
    is_large = F.greatest(*(F.col(load) - F.col(f"{load}_size") for load in LOADS)) > 0
    has_topics_to_part = F.col("topics") >= FEWEST_TOPICS
    large = (
        bundles.where(has_topics_to_part)
        .join(F.broadcast(questions), on="namespace", how="inner")
        .where(is_large)
        .collect()
    )
    cuts = find_cuts(topics, [row["bundle"] for row in large])
    return [
        SplitCandidate(
            namespace=row["namespace"],
            bundle=row["bundle"],
            reason=TOO_BIG,
            hits=0,
            topics=row["topics"],
            sessions=row["sessions"],
            msg_rate_per_s=row["msg_rate_millis"] / MILLI,
            throughput_bytes_per_s=float(row["throughput_in"] + row["throughput_out"]),
            rank=0,
            namespace_bundles=row["namespace_bundles"],
            **asdict(cuts[row["bundle"]]),
        )
        for row in sorted(large, key=lambda row: row["bundle"])
        if row["bundle"] in cuts and row["bundle"] not in known
    ]


def _sizes_in_question(
    totals: Sequence[Row], pools: PoolAssignment, brokers: Sequence[Broker], limit_of_broker: Sequence[list[int]]
) -> Mapping[str, tuple[float, ...]]:
    """Per pool and resource the load above which a bundle comes into question; endless where no limit is known."""
    carried: dict[str, list[int]] = defaultdict(lambda: [0] * len(RESOURCES))
    for row in totals:
        pool = pools.pool_of_namespace.get(row["namespace"])
        if pool is not None:
            carried[pool] = [sum(pair) for pair in zip(carried[pool], (row[load] for load in LOADS), strict=True)]
    limits: dict[str, list[list[int]]] = defaultdict(list)
    for broker, limit in zip(brokers, limit_of_broker, strict=True):
        pool = pools.pool_of_broker.get(broker.broker_id)
        if pool is not None and broker.state == BrokerState.ACTIVE:
            limits[pool].append(limit)
    return {
        pool: tuple(
            _size_in_question(load, [limit[place] for limit in limits[pool] if limit[place]])
            for place, load in enumerate(carried[pool])
        )
        for pool in sorted(set(carried) & set(limits))
    }


def _size_in_question(load: int, limits: Sequence[int]) -> float:
    return PART_OF_FAIR_SHARE * load * min(limits) / sum(limits) if limits else float("inf")
