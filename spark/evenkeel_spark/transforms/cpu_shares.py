"""A broker's measured cpu, shared out over its bundles by message rate: `evenkeel.planning.load.share_cpu` on frames.

All figures are integers, so the shares are the same however the frame is partitioned.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F


def with_cpu_shares(bundles: DataFrame, broker_cpu: DataFrame) -> DataFrame:
    """Add `cpu_millipercent` to owned bundles; `broker_cpu` has `owner` and `broker_cpu_millipercent`.

    All bundles of a broker must be there, those that are never planned included, for they use its cpu too.
    """
    of_owner = Window.partitionBy("owner").rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing)
    # Rounded to the nearest by integers alone; the cpu of a broker without messages stays unassigned.
    nearest = F.expr(
        "(2 * broker_cpu_millipercent * msg_rate_millis + broker_msg_rate_millis) div (2 * broker_msg_rate_millis)"
    )
    is_assigned = F.col("broker_cpu_millipercent").isNotNull() & (F.col("broker_msg_rate_millis") > 0)
    return (
        bundles.join(F.broadcast(broker_cpu), on="owner", how="left")
        .withColumn("broker_msg_rate_millis", F.sum("msg_rate_millis").over(of_owner))
        .withColumn("cpu_millipercent", F.when(is_assigned, nearest).otherwise(F.lit(0)))
        .drop("broker_cpu_millipercent", "broker_msg_rate_millis")
    )
