"""The rates that a plan is made for: those of now, the 95th percentile, or the peak until the plan expires.

Every row keeps its rates of now beside them, because what a broker measured belongs to those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel.model.load import AVERAGE_WEIGHT_MILLIS
from evenkeel.model.settings import Settings
from evenkeel_spark.transforms.units import LOAD_COLUMNS, with_integer_loads

IDENTITY_COLUMNS = ("bundle", "namespace", "owner", "state", "version_id", "topics", "sessions")


@dataclass(frozen=True, slots=True)
class LoadTables:
    """The tables of a load profile."""

    bundle_profiles: DataFrame
    hourly_peaks: DataFrame


def planned_rates(tables: LoadTables, hours: Sequence[int], settings: Settings) -> DataFrame:
    """Each bundle of a profile with the rates that the settings ask for; `hours` are those of the plan's horizon."""
    profiles = tables.bundle_profiles
    if settings.planning_load == "peak":
        profiles = profiles.transform(_with_peaks_of_hours, tables.hourly_peaks, hours)
    return profiles.select(
        *IDENTITY_COLUMNS,
        "cpu_weight_millis",
        *(F.col(pattern.format("now")).alias(f"{load}_now") for load, pattern in LOAD_COLUMNS.items()),
        *(F.col(pattern.format(settings.planning_load)).alias(load) for load, pattern in LOAD_COLUMNS.items()),
    )


def rates_now(bundles: DataFrame) -> DataFrame:
    """Each bundle of a snapshot with its rates of now, for a plan that was made without a profile."""
    return bundles.transform(with_integer_loads).select(
        *(name for name in IDENTITY_COLUMNS if name != "sessions"),
        (F.col("producers") + F.col("consumers")).alias("sessions"),
        F.lit(AVERAGE_WEIGHT_MILLIS).cast("long").alias("cpu_weight_millis"),
        *(F.col(load).alias(f"{load}_now") for load in LOAD_COLUMNS),
        *LOAD_COLUMNS,
    )


def _with_peaks_of_hours(profiles: DataFrame, hourly_peaks: DataFrame, hours: Sequence[int]) -> DataFrame:
    """Replace a bundle's peak by that of some hours of the week, where the history has seen it in all of them."""
    peaks = [pattern.format("peak") for pattern in LOAD_COLUMNS.values()]
    of_hours = (
        hourly_peaks.where(F.col("hour_of_week").isin(list(hours)))
        .groupBy("bundle")
        .agg(F.count("*").alias("hours_seen"), *(F.max(peak).alias(f"{peak}_of_hours") for peak in peaks))
    )
    was_seen = F.col("hours_seen") == len(hours)
    forecast = {peak: F.when(was_seen, F.col(f"{peak}_of_hours")).otherwise(F.col(peak)) for peak in peaks}
    return profiles.join(of_hours, on="bundle", how="left").withColumns(forecast)
