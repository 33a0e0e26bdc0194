"""The load of a snapshot's bundles in the planner's integer units, computed by Spark."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from evenkeel.model.load import MILLI, Resource, limit_units
from evenkeel.model.snapshot import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def bundle_loads(spark: SparkSession, bundles: DataFrame, brokers: Sequence[Broker]) -> DataFrame:
    """Each bundle with its load now; a broker's measured cpu is shared out by message rate, as the planner does."""
    from pyspark.sql import functions as F

    from evenkeel.gates.rules.figures import whole
    from evenkeel_spark.transforms.cpu_shares import with_cpu_shares

    loads = bundles.select(
        "bundle",
        "namespace",
        "owner",
        "version_id",
        "topics",
        (F.col("producers") + F.col("consumers")).alias("sessions"),
        whole((F.col("msg_rate_in_per_s") + F.col("msg_rate_out_per_s")) * MILLI).alias("msg_rate_millis"),
        whole(F.col("throughput_in_bytes_per_s")).alias("throughput_in"),
        whole(F.col("throughput_out_bytes_per_s")).alias("throughput_out"),
    )
    return with_cpu_shares(loads, _broker_cpu(spark, brokers))


def _broker_cpu(spark: SparkSession, brokers: Sequence[Broker]) -> DataFrame:
    import pyarrow as pa

    owners = pa.array([broker.broker_id for broker in brokers], pa.string())
    cpu = pa.array([limit_units(Resource.CPU, broker.cpu_usage_percent) for broker in brokers], pa.int64())
    return spark.createDataFrame(pa.table({"owner": owners, "broker_cpu_millipercent": cpu}))
