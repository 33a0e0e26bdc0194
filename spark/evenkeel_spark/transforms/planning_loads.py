"""The load that is planned for, bundle by bundle; the planner and the gate that judges its plans both use it.

First the rates: those of now, the 95th percentile, or the peak until the plan expires. Every row keeps its rates of now
beside them, because what a broker measured belongs to those. Then the load: a broker's measured cpu is shared out over
its bundles by their rates now times the weight of their messages. A bundle that is planned with more messages than it
has now is planned with more cpu in proportion. Measured traffic beyond the sum of the bundles is left out, or spread
over them in proportion (`bandwidth_model`). All figures are integers, so the result does not depend on the
partitioning. `evenkeel_spark.driver_loads` computes the same without Spark.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.model.load import AVERAGE_WEIGHT_MILLIS, Resource, limit_units
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel_spark.cluster_loads import IDENTITY_COLUMNS, LOAD_COLUMNS
from evenkeel_spark.transforms.columns import with_integer_loads

_THROUGHPUTS = ("throughput_in", "throughput_out")


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


def judged_rates(bundles: DataFrame, profile: LoadTables | None, hours: Sequence[int], settings: Settings) -> DataFrame:
    """The rates by which a plan is judged: owners are the snapshot's, rates are those of the plan's profile.

    A plan without a profile is judged by the load of now. A bundle that the profile lacks carries nothing, and shows up
    as load that differs from the plan's.
    """
    now = bundles.transform(rates_now)
    if profile is None:
        return now
    planned = planned_rates(profile, hours, settings).drop(*(set(IDENTITY_COLUMNS) - {"bundle"}))
    figures = [name for name in planned.columns if name != "bundle"]
    return now.select(*IDENTITY_COLUMNS).join(planned, on="bundle", how="left").fillna(0, figures)


def planning_loads(rates: DataFrame, brokers: Sequence[Broker], settings: Settings) -> DataFrame:
    """The planning load of each bundle, from its rates (`planned_rates`) and what the brokers measured.

    All bundles of a broker must be there, those that are never planned included, for they use its cpu too.
    """
    weighted = rates.withColumns(
        {"cost": _weighted(F.col("msg_rate_millis")), "cost_now": _weighted(F.col("msg_rate_millis_now"))}
    )
    totals = weighted.groupBy("owner").agg(
        *(F.sum(f"{load}_now").alias(f"{load}_total") for load in ("cost", *_THROUGHPUTS))
    )
    measured = _measured_usage(rates.sparkSession, brokers).join(totals, on="owner", how="inner")
    throughputs = {name: _scaled(name) for name in _THROUGHPUTS} if settings.bandwidth_model == "scaled" else {}
    return (
        weighted.join(F.broadcast(measured), on="owner", how="left")
        .withColumns({"cpu_millipercent": _cpu_share(), **throughputs})
        .select(*IDENTITY_COLUMNS, *LOAD_COLUMNS, "cpu_millipercent")
    )


def _measured_usage(spark: SparkSession, brokers: Sequence[Broker]) -> DataFrame:
    """What the brokers measured, in integer units; 0 is unknown."""
    usage = {
        "cpu_measured": [limit_units(Resource.CPU, b.cpu_usage_percent) for b in brokers],
        "throughput_in_measured": [limit_units(Resource.BANDWIDTH_IN, b.bandwidth_in_usage_kbps) for b in brokers],
        "throughput_out_measured": [limit_units(Resource.BANDWIDTH_OUT, b.bandwidth_out_usage_kbps) for b in brokers],
    }
    columns = {name: pa.array(values, pa.int64()) for name, values in usage.items()}
    return spark.createDataFrame(pa.table({"owner": pa.array([b.broker_id for b in brokers], pa.string()), **columns}))


def _weighted(rate: Column) -> Column:
    """Messages in units of the average message, rounded to the nearest thousandth."""
    half = AVERAGE_WEIGHT_MILLIS // 2
    return _whole_quotient(rate * F.col("cpu_weight_millis") + half, F.lit(AVERAGE_WEIGHT_MILLIS))


def _cpu_share() -> Column:
    """A bundle's part of its owner's cpu; the cpu of a broker without messages stays unassigned."""
    is_assigned = F.col("cost_total") > 0
    return F.when(is_assigned, _in_proportion("cost", "cpu_measured", "cost_total")).otherwise(F.lit(0))


def _scaled(throughput: str) -> Column:
    """A bundle's throughput with its part of the measured traffic that no bundle explains."""
    measured, total = f"{throughput}_measured", f"{throughput}_total"
    is_beyond = (F.col(total) > 0) & (F.col(measured) > F.col(total))
    return F.when(is_beyond, _in_proportion(throughput, measured, total)).otherwise(F.col(throughput))


def _in_proportion(part: str, measured: str, total: str) -> Column:
    """`measured` × `part` ÷ `total`, rounded to the nearest by integers alone."""
    # The product of two rates in bytes outgrows 64 bits.
    product = 2 * F.col(measured).cast("decimal(18,0)") * F.col(part).cast("decimal(18,0)")
    return _whole_quotient(product + F.col(total), 2 * F.col(total)).cast("long")


def _whole_quotient(dividend: Column, divisor: Column) -> Column:
    return F.call_function("div", dividend, divisor)
