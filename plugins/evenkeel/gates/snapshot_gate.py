"""The gate between a snapshot and planning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel import __version__
from evenkeel.gates.frames import SnapshotFrames, local_copy
from evenkeel.gates.validation import run_suite
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import BrokerState, SnapshotManifest
from evenkeel.model.verdict import Verdict

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def judge_snapshot(
    spark: SparkSession, manifest: SnapshotManifest, frames: SnapshotFrames, settings: Settings
) -> Verdict:
    """Say whether a snapshot is complete, fresh and consistent enough to plan with."""
    parameters = {
        "taken_at_epoch_s": manifest.taken_at.timestamp(),
        "broker_load_data_ttl_in_seconds": settings.broker_load_data_ttl_in_seconds,
        "brokers_without_report": list(manifest.brokers_without_report),
        "notes": list(manifest.notes),
    }
    small = local_copy(spark, frames.brokers)
    bundles = with_owners(frames.bundles, small).persist()
    try:
        brokers = local_copy(spark, _with_sums(small, bundles))
        checks = [
            *run_suite("snapshot_brokers", brokers, parameters),
            *run_suite("snapshot_bundles", bundles, parameters),
            *run_suite("snapshot_policies", frames.policies, parameters),
        ]
    finally:
        bundles.unpersist()
    return Verdict(f"snapshot {manifest.snapshot_id}", tuple(checks), __version__)


def with_owners(bundles: DataFrame, brokers: DataFrame) -> DataFrame:
    """Each bundle with whether its owner is registered; null where the owner is not among the brokers."""
    from pyspark.sql import functions as F

    is_registered = F.col("incarnation").isNotNull() | (F.col("state") != F.lit(str(BrokerState.INACTIVE)))
    owners = brokers.groupBy(F.col("broker_id").alias("owner")).agg(F.max(is_registered).alias("owner_is_registered"))
    return bundles.join(F.broadcast(owners), on="owner", how="left")


def _with_sums(brokers: DataFrame, bundles: DataFrame) -> DataFrame:
    """Each broker with the throughput of its bundles added up."""
    from pyspark.sql import functions as F

    from evenkeel_spark.transforms.figures import whole

    sums = bundles.groupBy(F.col("owner").alias("broker_id")).agg(
        F.sum(whole(F.col("throughput_in_bytes_per_s"))).alias("bundles_in_bytes_per_s"),
        F.sum(whole(F.col("throughput_out_bytes_per_s"))).alias("bundles_out_bytes_per_s"),
    )
    return brokers.join(sums, on="broker_id", how="left")
