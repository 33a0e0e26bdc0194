"""Load in the integer units of `evenkeel.model.load`, so that no sum depends on its order."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.model.load import MILLI


def with_integer_loads(bundles: DataFrame) -> DataFrame:
    """Add the load of each row in integer units."""
    msg_rate_per_s = F.col("msg_rate_in_per_s") + F.col("msg_rate_out_per_s")
    return bundles.withColumns(
        {
            "msg_rate_millis": round_half_up(msg_rate_per_s * F.lit(MILLI)),
            "throughput_in": round_half_up(F.col("throughput_in_bytes_per_s")),
            "throughput_out": round_half_up(F.col("throughput_out_bytes_per_s")),
        }
    )


def round_half_up(value: Column) -> Column:
    """A number as a whole one, halves upwards."""
    return F.round(value, 0).cast("long")
