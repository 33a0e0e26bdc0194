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
    return _with_cpu(loads, _broker_cpu(spark, brokers))


def _with_cpu(loads: DataFrame, broker_cpu: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    of_owner = Window.partitionBy("owner").rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # To the nearest in integers alone, so that the sum is the planner's to the last digit.
    nearest = F.expr("(2 * broker_cpu * msg_rate_millis + broker_rate) div (2 * broker_rate)")
    is_shared = F.col("broker_cpu").isNotNull() & (F.col("broker_rate") > 0)
    return (
        loads.join(F.broadcast(broker_cpu), on="owner", how="left")
        .withColumn("broker_rate", F.sum("msg_rate_millis").over(of_owner))
        .withColumn("cpu_millipercent", F.when(is_shared, nearest).otherwise(F.lit(0)))
        .drop("broker_cpu", "broker_rate")
    )


def _broker_cpu(spark: SparkSession, brokers: Sequence[Broker]) -> DataFrame:
    import pyarrow as pa

    owners = pa.array([broker.broker_id for broker in brokers], pa.string())
    cpu = pa.array([limit_units(Resource.CPU, broker.cpu_usage_percent) for broker in brokers], pa.int64())
    return spark.createDataFrame(pa.table({"owner": owners, "broker_cpu": cpu}))
