"""Bundles that may be too big for any broker, each with its best cut, so that a pool's planner can split them.

The cut needs topics, which no planner on an executor has. So the bundles that come into question are found here.
"""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from evenkeel.model.load import SplitCandidate
from evenkeel.planning.pools import PoolAssignment
from evenkeel.planning.splitting.large_bundles import large_candidate, sizes_in_question
from evenkeel_spark.cuts import find_cuts
from evenkeel_spark.transforms.split_candidates import FEWEST_TOPICS
from evenkeel_spark.transforms.transfers import PlanningInputs

# Columns of the planning loads, in the order of RESOURCES.
LOADS = ("cpu_millipercent", "throughput_in", "throughput_out")


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
    carried = {row["namespace"]: [row[load] for load in LOADS] for row in totals}
    sizes = sizes_in_question(carried, pools, inputs.brokers, inputs.settings)
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
        large_candidate(
            namespace=row["namespace"],
            bundle=row["bundle"],
            topics=row["topics"],
            sessions=row["sessions"],
            msg_rate_millis=row["msg_rate_millis"],
            throughput=row["throughput_in"] + row["throughput_out"],
            namespace_bundles=row["namespace_bundles"],
            cut=cuts[row["bundle"]],
        )
        for row in sorted(large, key=lambda row: row["bundle"])
        if row["bundle"] in cuts and row["bundle"] not in known
    ]
