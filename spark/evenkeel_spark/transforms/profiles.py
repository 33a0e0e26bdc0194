"""A bundle's load over time: now, median, 95th percentile and peak, and the peak of each hour of the week.

Input is the bundle history of `evenkeel_spark.io`. Percentiles are exact, and interpolate between neighbours.
"""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.model.load import BundleProfile, HourlyPeak
from evenkeel_spark.schemas import select_table
from evenkeel_spark.transforms.units import round_half_up, with_integer_loads

HOURS_A_DAY = 24
_QUANTILES = (0.5, 0.95)

# Integer load of a row → name pattern of its columns in a profile.
_LOAD_COLUMNS: Mapping[str, str] = {
    "msg_rate_millis": "msg_rate_{}_millis",
    "throughput_in": "throughput_in_{}_bytes_per_s",
    "throughput_out": "throughput_out_{}_bytes_per_s",
}


def bundle_profiles(bundle_history: DataFrame) -> DataFrame:
    """The load of each bundle that exists now, now and over the whole history."""
    loads = bundle_history.transform(with_integer_loads)
    now = loads.where(is_now()).select(
        "namespace",
        "bundle",
        "owner",
        "state",
        "version_id",
        "topics",
        (F.col("producers") + F.col("consumers")).alias("sessions"),
        *(F.col(load).alias(pattern.format("now")) for load, pattern in _LOAD_COLUMNS.items()),
    )
    over_time = loads.transform(_load_over_time)
    return now.join(over_time, on="bundle", how="inner").transform(select_table, BundleProfile)


def hourly_peaks(bundle_history: DataFrame) -> DataFrame:
    """The peak load of each bundle that exists now, by hour of the week (UTC)."""
    loads = bundle_history.transform(with_integer_loads).withColumn("hour_of_week", hour_of_week(F.col("taken_at")))
    present = bundle_history.where(is_now()).select("bundle")
    peaks = [F.max(load).alias(pattern.format("peak")) for load, pattern in _LOAD_COLUMNS.items()]
    return (
        loads.join(present, on="bundle", how="left_semi")
        .groupBy("bundle", "hour_of_week")
        .agg(F.count("*").alias("samples"), *peaks)
        .transform(select_table, HourlyPeak)
    )


def is_now() -> Column:
    """Whether a row of the history belongs to the snapshot that was asked for."""
    return F.col("snapshots_ago") == 0


def hour_of_week(moment: Column) -> Column:
    """Hours since Monday 00:00, in the session's time zone, which is UTC."""
    return F.weekday(moment) * HOURS_A_DAY + F.hour(moment)


def _load_over_time(loads: DataFrame) -> DataFrame:
    """Samples, percentiles and peak of every bundle that the history holds."""
    spread = [F.percentile(load, list(_QUANTILES)).alias(f"{load}_quantiles") for load in _LOAD_COLUMNS]
    peaks = [F.max(load).alias(pattern.format("peak")) for load, pattern in _LOAD_COLUMNS.items()]
    quantiles = [
        round_half_up(F.col(f"{load}_quantiles")[place]).alias(pattern.format(name))
        for load, pattern in _LOAD_COLUMNS.items()
        for place, name in enumerate(("p50", "p95"))
    ]
    return (
        loads.groupBy("bundle")
        .agg(F.count("*").alias("samples"), *spread, *peaks)
        .select("bundle", "samples", *quantiles, *(pattern.format("peak") for pattern in _LOAD_COLUMNS.values()))
    )
