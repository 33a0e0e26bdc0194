"""Bundles by pool: what each pool's planner has to know, as one group of rows."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel_spark.transforms.namespaces import is_system

BUNDLE_COLUMNS = (
    "bundle",
    "namespace",
    "owner",
    "version_id",
    "topics",
    "sessions",
    "msg_rate_millis",
    "throughput_in",
    "throughput_out",
    "cpu_millipercent",
    "state",
)


def owned_bundles(profiles: DataFrame) -> DataFrame:
    """The bundles that have an owner, with the load that is planned for: the load now."""
    return profiles.where(F.col("owner").isNotNull()).select(
        "bundle",
        "namespace",
        "owner",
        "version_id",
        "topics",
        "sessions",
        F.col("msg_rate_now_millis").alias("msg_rate_millis"),
        F.col("throughput_in_now_bytes_per_s").alias("throughput_in"),
        F.col("throughput_out_now_bytes_per_s").alias("throughput_out"),
        "state",
    )


def without_system_namespaces(bundles: DataFrame) -> DataFrame:
    """The bundles that may be planned at all."""
    return bundles.where(~is_system(F.col("namespace")))


def by_pool(bundles: DataFrame, namespace_pools: DataFrame, broker_pools: DataFrame, pools: DataFrame) -> DataFrame:
    """Each bundle under the pool of its namespace and, if that is another, under the pool of its owner.

    A pool has to know the strangers on its brokers: they are load that stays. Every pool has at least one row, so
    that one without bundles is planned too; such a row holds nulls.
    """
    concerned = F.array_distinct(F.array_compact(F.array("namespace_pool", "owner_pool")))
    placed = (
        bundles.join(F.broadcast(namespace_pools), on="namespace", how="left")
        .join(F.broadcast(broker_pools), on="owner", how="left")
        .withColumn("pool", F.explode(concerned))
        .select("pool", *BUNDLE_COLUMNS)
    )
    return pools.join(placed, on="pool", how="left").select("pool_number", "pool", *BUNDLE_COLUMNS)
