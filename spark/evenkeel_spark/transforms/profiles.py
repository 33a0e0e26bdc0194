"""A bundle's load over time: now, median, 95th percentile and peak, and the peak of each hour of the week.

Input is the bundle history of `evenkeel_spark.lake_frames`. Percentiles are exact, and interpolate between neighbours.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.model.load import AVERAGE_WEIGHT_MILLIS, BundleProfile, HourlyPeak
from evenkeel.planning.problem.loads import HOURS_A_DAY
from evenkeel_spark.cluster_loads import LOAD_COLUMNS
from evenkeel_spark.lake_frames import select_table
from evenkeel_spark.transforms.columns import whole, with_integer_loads

_QUANTILES = (0.5, 0.95)


def bundle_profiles(bundle_history: DataFrame, cpu_calibration: DataFrame | None = None) -> DataFrame:
    """The load of each bundle that exists now, now and over the whole history, and what its messages weigh."""
    loads = bundle_history.transform(with_integer_loads)
    now = loads.where(is_now()).select(
        "namespace",
        "bundle",
        "owner",
        "state",
        "version_id",
        "topics",
        (F.col("producers") + F.col("consumers")).alias("sessions"),
        *(F.col(load).alias(pattern.format("now")) for load, pattern in LOAD_COLUMNS.items()),
    )
    over_time = loads.transform(_load_over_time)
    profiles = now.join(over_time, on="bundle", how="inner")
    return profiles.transform(_with_cpu_weights, cpu_calibration).transform(select_table, BundleProfile)


def hourly_peaks(bundle_history: DataFrame) -> DataFrame:
    """The peak load of each bundle that exists now, by hour of the week (UTC)."""
    loads = bundle_history.transform(with_integer_loads).withColumn("hour_of_week", hour_of_week(F.col("taken_at")))
    present = bundle_history.where(is_now()).select("bundle")
    peaks = [F.max(load).alias(pattern.format("peak")) for load, pattern in LOAD_COLUMNS.items()]
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


def _with_cpu_weights(profiles: DataFrame, cpu_calibration: DataFrame | None) -> DataFrame:
    """Add what a calibration says of a bundle, else of its namespace; without one, all messages weigh the same."""
    average = F.lit(AVERAGE_WEIGHT_MILLIS)
    if cpu_calibration is None:
        return profiles.withColumn("cpu_weight_millis", average)
    of_bundles, of_namespaces = (
        cpu_calibration.select(F.col("key").alias(key), F.col("weight_millis").alias(f"{key}_weight_millis"))
        for key in ("bundle", "namespace")
    )
    return (
        profiles.join(of_bundles, on="bundle", how="left")
        .join(of_namespaces, on="namespace", how="left")
        .withColumn("cpu_weight_millis", F.coalesce("bundle_weight_millis", "namespace_weight_millis", average))
    )


def _load_over_time(loads: DataFrame) -> DataFrame:
    """Samples, percentiles and peak of every bundle that the history holds."""
    spread = [F.percentile(load, list(_QUANTILES)).alias(f"{load}_quantiles") for load in LOAD_COLUMNS]
    peaks = [F.max(load).alias(pattern.format("peak")) for load, pattern in LOAD_COLUMNS.items()]
    quantiles = [
        whole(F.col(f"{load}_quantiles")[place]).alias(pattern.format(name))
        for load, pattern in LOAD_COLUMNS.items()
        for place, name in enumerate(("p50", "p95"))
    ]
    return (
        loads.groupBy("bundle")
        .agg(F.count("*").alias("samples"), *spread, *peaks)
        .select("bundle", "samples", *quantiles, *(pattern.format("peak") for pattern in LOAD_COLUMNS.values()))
    )
