"""Load in the integer units of `evenkeel.model.load`, so that no sum depends on its order."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel.model.load import MILLI
from evenkeel_spark.transforms.figures import whole

LOAD_COLUMNS: Mapping[str, str] = {
    "msg_rate_millis": "msg_rate_{}_millis",
    "throughput_in": "throughput_in_{}_bytes_per_s",
    "throughput_out": "throughput_out_{}_bytes_per_s",
}
"""Integer load of a row → name pattern of its columns in a profile."""


def with_integer_loads(bundles: DataFrame) -> DataFrame:
    """Add the load of each row in integer units."""
    msg_rate_per_s = F.col("msg_rate_in_per_s") + F.col("msg_rate_out_per_s")
    return bundles.withColumns(
        {
            "msg_rate_millis": whole(msg_rate_per_s * F.lit(MILLI)),
            "throughput_in": whole(F.col("throughput_in_bytes_per_s")),
            "throughput_out": whole(F.col("throughput_out_bytes_per_s")),
        }
    )
