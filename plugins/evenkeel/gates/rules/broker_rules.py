"""What the table `brokers` of a snapshot must keep."""

from __future__ import annotations

import operator
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from evenkeel.gates.rules.base import Parameter, Rule, sentences
from evenkeel.model.load import BYTES_PER_KILOBIT
from evenkeel.model.snapshot import BrokerState, LoadManager
from evenkeel_spark.transforms.figures import is_sane

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

BYTES_PER_MEGABYTE = 1_000_000
FIGURES = tuple(
    f"{resource}_{figure}_{unit}"
    for resource, unit in (
        ("cpu", "percent"),
        ("memory", "mib"),
        ("direct_memory", "mib"),
        ("bandwidth_in", "kbps"),
        ("bandwidth_out", "kbps"),
    )
    for figure in ("usage", "limit")
)
PLANNED_LIMITS = {
    "cpu": "cpu_limit_percent",
    "bandwidth in": "bandwidth_in_limit_kbps",
    "bandwidth out": "bandwidth_out_limit_kbps",
}


def _is_imported() -> Column:
    """An imported broker's row is its report: files carry no time of measurement."""
    return F.col("load_manager") == F.lit(str(LoadManager.IMPORTED))


class BrokerStatesAreKnown(Rule):
    """An unknown state might mean anything, also that the broker may not receive."""

    description: str | None = "Every broker is Initial, Active, Inactive or Stopping"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        sentence = F.format_string("broker %s is in the unknown state %s", "broker_id", "state")
        return rows.filter(~F.col("state").isin([str(state) for state in BrokerState])).select(sentence.alias("detail"))


class BrokersAreListedOnce(Rule):
    """A broker with two rows would be counted twice."""

    description: str | None = "Every broker is listed once"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        # Few rows: one partition spares the shuffle.
        listed = rows.coalesce(1).groupBy("broker_id").agg(F.count("*").alias("times"))
        sentence = F.format_string("broker %s is listed %,d times", "broker_id", "times")
        return listed.filter(F.col("times") > 1).select(sentence.alias("detail"))


class BrokersHaveReports(Rule):
    """Without a report a broker's load is not known, which is not the same as none."""

    description: str | None = "Every broker has a load report"
    without_report: list[str] | Parameter

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        named = self.without_report
        assert isinstance(named, list)
        silent = rows.filter(F.col("reported_at").isNull() & ~_is_imported()).select("broker_id")
        # The manifest may name brokers that never made it into the table.
        if named:
            silent = silent.union(sentences(rows.sparkSession, named))
        sentence = F.format_string("broker %s has no load report", "broker_id")
        return silent.coalesce(1).distinct().select(sentence.alias("detail"))


class ReportsAreFresh(Rule):
    """An old report tells of a load that may be gone."""

    description: str | None = "No load report is older than the limit"
    taken_at_epoch_s: float | Parameter
    limit_s: float | Parameter

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        # Epochs, because a Spark timestamp is shown in the session's time zone.
        age_s = F.lit(self.taken_at_epoch_s) - F.unix_micros("reported_at") / F.lit(1e6)
        # One from far in the future comes from a broken clock, and says as little as an old one.
        sentence = F.format_string(
            "report of broker %s is %,d s %s, the limit is %,d s",
            "broker_id",
            F.ceil("excess"),
            F.when(F.col("is_old"), F.lit("old")).otherwise(F.lit("ahead of its time")),
            F.lit(self.limit_s).cast("bigint"),
        )
        aged = rows.select("broker_id", F.abs(age_s).alias("excess"), (age_s > 0).alias("is_old"))
        return aged.filter(F.col("excess") > F.lit(self.limit_s)).select("excess", sentence.alias("detail"))


class BrokerFiguresAreSane(Rule):
    """A negative or infinite figure would poison every sum that it enters."""

    description: str | None = "Usage and limits of brokers are finite and not negative"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        is_wrong = reduce(operator.or_, (~is_sane(F.col(name)) for name in FIGURES))
        figures = F.array(*(F.struct(F.lit(name).alias("name"), F.col(name).alias("value")) for name in FIGURES))
        # Rows without a fault are dropped first, because there Spark is quick.
        each = rows.filter(is_wrong).select("broker_id", F.explode(figures).alias("figure"))
        sentence = F.format_string(
            "%s of broker %s is %s", "figure.name", "broker_id", F.col("figure.value").cast("string")
        )
        return each.filter(~is_sane(F.col("figure.value"))).select(sentence.alias("detail"))


class LimitsAreKnown(Rule):
    """A resource without a limit is left out of the planning on that broker."""

    description: str | None = "The limits of cpu and bandwidth are known of every broker"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        unknown = F.concat_ws(" and ", *(F.when(F.col(c).isNull(), F.lit(name)) for name, c in PLANNED_LIMITS.items()))
        is_unknown = reduce(operator.or_, (F.col(c).isNull() for c in PLANNED_LIMITS.values()))
        sentence = F.format_string("the limit of %s of broker %s is unknown", unknown, "broker_id")
        return rows.filter(is_unknown).select(sentence.alias("detail"))


class BundleLoadMatchesBrokerLoad(Rule):
    """Traffic that no bundle explains (bookies, replication) is not balanced by moving bundles.

    Reads the brokers with the sum of their bundles in `bundles_in_bytes_per_s` and `bundles_out_bytes_per_s`.
    """

    description: str | None = "The measured bandwidth of a broker is about the sum of its bundles"
    tolerance: float
    slack_bytes_per_s: float

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        directions = _bandwidth(rows, "in").unionByName(_bandwidth(rows, "out"))
        deviation = F.abs(F.col("measured") - F.col("summed"))
        larger = F.greatest("measured", "summed")
        is_off = (deviation > self.tolerance * larger) & (deviation > self.slack_bytes_per_s)
        sentence = F.format_string(
            "bandwidth %s of broker %s is measured at %,.1f MB/s, its bundles sum to %,.1f MB/s",
            "way",
            "broker_id",
            F.col("measured") / BYTES_PER_MEGABYTE,
            F.col("summed") / BYTES_PER_MEGABYTE,
        )
        return directions.filter(is_off).select((deviation / larger).alias("excess"), sentence.alias("detail"))


def _bandwidth(rows: DataFrame, way: str) -> DataFrame:
    measured = F.col(f"bandwidth_{way}_usage_kbps") * BYTES_PER_KILOBIT
    summed = F.coalesce(F.col(f"bundles_{way}_bytes_per_s"), F.lit(0)).cast("double")
    return rows.select("broker_id", F.lit(way).alias("way"), measured.alias("measured"), summed.alias("summed"))


class NothingWasAssumed(Rule):
    """What the collector could not find out is told to whoever reads the plan."""

    description: str | None = "The snapshot had to assume nothing, such as equal capacity of all brokers"
    assumptions: list[str] | Parameter

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        assert isinstance(self.assumptions, list)
        return sentences(rows.sparkSession, self.assumptions)
