"""What a cluster carries in all, added up by Spark, so that thresholds on auto can follow it."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel.model.load import MILLI
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.pulsar.auto_thresholds import ClusterTotals
from evenkeel.pulsar.broker_load import ResourceUsage, ResourceUsages, weighted_usage_with_heap
from evenkeel_spark.transforms.units import with_integer_loads


def cluster_totals(bundles: DataFrame, brokers: Sequence[Broker], settings: Settings) -> ClusterTotals:
    """Add up the bundles of a snapshot in integers; the usage of brokers is the mean over the Active ones."""
    sums = ("topics", "producers", "consumers", "msg_rate_millis", "throughput_in", "throughput_out")
    (row,) = (
        bundles.transform(with_integer_loads)
        .agg(F.count("*").alias("bundles"), *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums))
        .collect()
    )
    usages = [weighted_usage_with_heap(_usages(b), settings) for b in brokers if b.state == BrokerState.ACTIVE]
    return ClusterTotals(
        brokers=len(usages),
        bundles=row["bundles"],
        topics=row["topics"],
        sessions=row["producers"] + row["consumers"],
        msg_rate_per_s=row["msg_rate_millis"] / MILLI,
        throughput_bytes_per_s=float(row["throughput_in"] + row["throughput_out"]),
        mean_weighted_usage=sum(usages) / len(usages) if usages else 0.0,
    )


def _usages(broker: Broker) -> ResourceUsages:
    return ResourceUsages(
        cpu=_usage(broker.cpu_usage_percent, broker.cpu_limit_percent),
        memory=_usage(broker.memory_usage_mib, broker.memory_limit_mib),
        direct_memory=_usage(broker.direct_memory_usage_mib, broker.direct_memory_limit_mib),
        bandwidth_in=_usage(broker.bandwidth_in_usage_kbps, broker.bandwidth_in_limit_kbps),
        bandwidth_out=_usage(broker.bandwidth_out_usage_kbps, broker.bandwidth_out_limit_kbps),
    )


def _usage(usage: float | None, limit: float | None) -> ResourceUsage:
    return ResourceUsage(usage or 0.0, limit or 0.0)
