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


def plannable_bundles(loads: DataFrame) -> DataFrame:
    """The bundles that may be planned at all: they have an owner, and Pulsar does not pin them to their place."""
    is_owned = F.col("owner").isNotNull()
    return loads.where(is_owned & ~is_system(F.col("namespace")))


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
