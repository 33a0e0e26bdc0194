"""What a plan may do to the load of brokers: one row a broker and resource, before and after."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from evenkeel.gates.rules.base import Parameter, Rule

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

# Utilisations are quotients; a difference below this is rounding.
_ROUNDING = 1e-9


def _share(used: str) -> Column:
    return F.col(used) / F.col("limit")


def _named(rows: DataFrame) -> DataFrame:
    resource = F.replace("resource", F.lit("_"), F.lit(" "))
    return rows.withColumn("what", F.format_string("%s of broker %s", resource, "broker_id"))


def _with_limits(rows: DataFrame) -> DataFrame:
    """Rows whose limit is known; the others are not planned."""
    return _named(rows.filter(F.col("limit") > 0))


class PlanIsNoWorseThanBefore(Rule):
    """No broker may end above the highest utilisation that its pool had before, unless it stays inside the band.

    A plan that empties brokers or repairs rules has to put the load somewhere: it may go up to the overload line.
    """

    description: str | None = "No resource's peak is higher after the plan than before"
    may_rise: bool | Parameter
    overload_line_percent: float | Parameter

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        pool = Window.partitionBy("pool", "resource")
        line = F.when(F.lit(self.may_rise), F.lit(self.overload_line_percent) / 100).otherwise(F.lit(0.0))
        peaks = _with_limits(rows).select(
            "what",
            _share("used_after").alias("after"),
            F.max(_share("used_before")).over(pool).alias("peak_before"),
            _share("band_limit").alias("band"),
        )
        allowed = F.greatest("peak_before", "band", line)
        sentence = F.format_string(
            "%s would be at %.1f %% of its limit, the highest before was %.1f %%",
            "what",
            100 * F.col("after"),
            100 * F.col("peak_before"),
        )
        worse = peaks.filter(F.col("after") > allowed + _ROUNDING)
        return worse.select((F.col("after") - allowed).alias("excess"), sentence.alias("detail"))


class BrokersEndInsideTheBand(Rule):
    """The plan is the best that was found; what stays outside is named, the worst first."""

    description: str | None = "Every resource of every broker ends inside the band"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        # A broker that no bundle of its pool may move to has no band.
        has_band = F.col("band_limit") > 0
        outside = _with_limits(rows).filter(has_band & (F.col("used_after") > F.col("band_limit")))
        sentence = F.format_string(
            "%s would be at %.1f %% of its limit, the band ends at %.1f %%",
            "what",
            100 * _share("used_after"),
            100 * _share("band_limit"),
        )
        return outside.select((_share("used_after") - _share("band_limit")).alias("excess"), sentence.alias("detail"))


class BrokersEndBelowTheOverloadLine(Rule):
    """Pulsar itself sheds from a broker above this line."""

    description: str | None = "No broker ends above the overload line"
    overload_line_percent: float | Parameter

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        percent = 100 * _share("used_after")
        sentence = F.format_string(
            "%s would be at %.1f %% of its limit, the overload line is %.1f %%",
            "what",
            percent,
            F.lit(self.overload_line_percent).cast("double"),
        )
        overloaded = _with_limits(rows).filter(percent > F.lit(self.overload_line_percent))
        return overloaded.select(percent.alias("excess"), sentence.alias("detail"))


class BalanceStartsAtTheSnapshot(Rule):
    """A plan for another load than that of its snapshot may be right, but not for the reasons that it gives.

    Reads the rows with the load by the snapshot in `used_in_snapshot`.
    """

    description: str | None = "The load before the plan is that of its snapshot"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        sentence = F.format_string(
            "%s is %,d before the plan by its table, %,d by the snapshot", "what", "used_before", "used_in_snapshot"
        )
        differing = rows.filter(F.col("used_before") != F.col("used_in_snapshot"))
        return _named(differing).select(sentence.alias("detail"))


class BalanceAgreesWithSteps(Rule):
    """What a person approves is the table; what is applied are the steps.

    Reads the rows with the load that the steps leave behind in `used_by_steps`.
    """

    description: str | None = "The load after the plan is what its steps lead to"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        sentence = F.format_string(
            "%s is %,d after the plan by its table, %,d by its steps", "what", "used_after", "used_by_steps"
        )
        differing = rows.filter(F.col("used_after") != F.col("used_by_steps"))
        return _named(differing).select(sentence.alias("detail"))
