"""The load that is planned for, bundle by bundle; the planner and the gate that judges its plans both ask here.

A broker's measured cpu belongs to the messages of its bundles now: it is shared out by their rates times the weight
of their messages. A bundle that is planned with more messages than it has now is planned with more cpu in proportion.
Measured traffic beyond the sum of the bundles is left out, or spread over them in proportion (`bandwidth_model`).
All figures are integers, so the answer is the same however the frames are partitioned.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.model.load import AVERAGE_WEIGHT_MILLIS, Resource, limit_units
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel_spark.transforms.planned_rates import IDENTITY_COLUMNS
from evenkeel_spark.transforms.units import LOAD_COLUMNS

_THROUGHPUTS = ("throughput_in", "throughput_out")


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
