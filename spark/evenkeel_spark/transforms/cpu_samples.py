"""What the cpu of brokers was while they carried which messages: the samples that cpu weights are learnt from.

The model is linear, so the snapshots of a broker within one sample (an hour, between two runs) are averaged. Brokers
that had not reported since the last run, or whose cpu was unknown or at its limit, say nothing and are left out.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel_spark.transforms.columns import with_integer_loads

MOST_USED_SHARE = 0.97
"""At its limit, cpu does not grow with the messages any more."""


def broker_samples(brokers: DataFrame, samples: DataFrame, report_age_s: float) -> DataFrame:
    """The brokers that can be learnt from: snapshot_id, sample, broker_id, cpu_usage_percent, cpu_limit_percent.

    `samples` has snapshot_id, sample (a number) and settled_at: the end of the last run before the snapshot.
    """
    is_fresh = F.unix_micros("taken_at") - F.unix_micros("reported_at") <= F.lit(int(report_age_s * 1_000_000))
    is_settled = F.col("reported_at") >= F.col("settled_at")
    is_known = (F.col("cpu_limit_percent") > 0) & (F.col("cpu_usage_percent") >= 0)
    is_below_limit = F.col("cpu_usage_percent") < F.col("cpu_limit_percent") * MOST_USED_SHARE
    return (
        brokers.join(F.broadcast(samples), on="snapshot_id", how="inner")
        .where(is_fresh & is_settled & is_known & is_below_limit)
        .select("snapshot_id", "sample", "broker_id", "cpu_usage_percent", "cpu_limit_percent")
    )


def cpu_by_sample(chosen: DataFrame) -> DataFrame:
    """The mean cpu of each broker and sample, as a share of its limit; `chosen` is of `broker_samples`."""
    share = F.col("cpu_usage_percent") / F.col("cpu_limit_percent")
    return chosen.groupBy("sample", "broker_id").agg(
        F.avg(share).alias("cpu_share"),
        F.avg("cpu_limit_percent").alias("limit_percent"),
        F.count("*").alias("snapshots"),
    )


def messages_by_sample(bundles: DataFrame, chosen: DataFrame) -> DataFrame:
    """The mean messages per second of each namespace on each broker and sample, in thousandths."""
    counts = chosen.groupBy("sample", "broker_id").agg(F.count("*").alias("snapshots"))
    keys = chosen.select("snapshot_id", "sample", "broker_id")
    return (
        bundles.transform(with_integer_loads)
        .withColumn("broker_id", F.col("owner"))
        .join(F.broadcast(keys), on=["snapshot_id", "broker_id"], how="inner")
        .groupBy("sample", "broker_id", "namespace")
        .agg(F.sum("msg_rate_millis").alias("messages"))
        .join(F.broadcast(counts), on=["sample", "broker_id"], how="inner")
        .select("sample", "broker_id", "namespace", (F.col("messages") / F.col("snapshots")).alias("msg_rate_millis"))
    )
