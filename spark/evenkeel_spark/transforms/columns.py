"""Column expressions that several transforms share: sane figures, integer loads, system namespaces."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.model.load import MILLI


def is_sane(figure: Column) -> Column:
    """Whether a figure is finite and not negative; an unknown one (null) is."""
    # Spark takes NaN for larger than any other number, infinity included.
    return figure.isNull() | ((figure >= F.lit(0.0)) & (figure < F.lit(float("inf"))))


def whole(figure: Column) -> Column:
    """A figure as the nearest integer, halves upwards, because sums of doubles depend on the order.

    What is not sane counts as nothing.
    """
    return F.coalesce(F.when(is_sane(figure), F.round(figure)).try_cast("bigint"), F.lit(0).cast("bigint"))


def with_integer_loads(bundles: DataFrame) -> DataFrame:
    """Add the load of each row in the integer units of `evenkeel.model.load`."""
    msg_rate_per_s = F.col("msg_rate_in_per_s") + F.col("msg_rate_out_per_s")
    return bundles.withColumns(
        {
            "msg_rate_millis": whole(msg_rate_per_s * F.lit(MILLI)),
            "throughput_in": whole(F.col("throughput_in_bytes_per_s")),
            "throughput_out": whole(F.col("throughput_out_bytes_per_s")),
        }
    )


def is_system(namespace: Column) -> Column:
    """Whether Pulsar pins a namespace to its place; the column form of `evenkeel.model.bundles.is_system_namespace`."""
    tenant = F.substring_index(namespace, "/", 1)
    is_heartbeat = (tenant == "pulsar") & namespace.contains(":")
    is_sla_monitor = tenant == "sla-monitor"
    is_pulsar_system = namespace == "pulsar/system"
    return is_heartbeat | is_sla_monitor | is_pulsar_system
