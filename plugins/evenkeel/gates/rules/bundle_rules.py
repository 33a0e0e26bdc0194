"""What the table `bundles` of a snapshot must keep; all of it is decided by Spark, never on the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from evenkeel.gates.rules.base import Rule
from evenkeel.model.bundles import RING_END
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel_spark.transforms.figures import is_sane

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

RATES = ("msg_rate_in_per_s", "msg_rate_out_per_s", "throughput_in_bytes_per_s", "throughput_out_bytes_per_s")
COUNTS = ("topics", "producers", "consumers")


class BundleStatesAreKnown(Rule):
    """A bundle in an unknown state cannot be moved by a legal change of its record."""

    description: str | None = "Every bundle is in a state that Pulsar knows"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        sentence = F.format_string("bundle %s is in the unknown state %s", "bundle", "state")
        is_known = F.col("state").isin([str(state) for state in ServiceUnitState])
        return rows.filter(~is_known).select(sentence.alias("detail"))


class BundlesAreListedOnce(Rule):
    """A bundle with two rows has two owners, or counts twice."""

    description: str | None = "Every bundle is listed once, with one owner"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        listed = rows.groupBy("bundle").agg(
            F.count("*").alias("times"), F.array_sort(F.collect_set("owner")).alias("owners")
        )
        several = F.format_string("bundle %s has the owners %s", "bundle", F.concat_ws(" and ", "owners"))
        twice = F.format_string("bundle %s is listed %,d times", "bundle", "times")
        sentence = F.when(F.size("owners") > 1, several).otherwise(twice)
        return listed.filter(F.col("times") > 1).select(sentence.alias("detail"))


class RangesTileTheRing(Rule):
    """A gap would leave topics without a bundle, an overlap would give them two."""

    description: str | None = "The bundles of every namespace tile the hash ring"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        along = Window.partitionBy("namespace").orderBy("range_lower", "range_upper")
        before = along.rowsBetween(Window.unboundedPreceding, -1)
        up_to = along.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        ends = rows.select(
            "namespace",
            "range_lower",
            "range_upper",
            # The furthest end so far, because a range may lie inside one before it.
            F.coalesce(F.max("range_upper").over(before), F.lit(0)).alias("end_before"),
            F.max("range_upper").over(up_to).alias("end"),
            F.lead("range_lower").over(along).isNull().alias("is_last"),
        )
        gap, overlap = "namespace %s: a gap from 0x%08x to 0x%08x", "namespace %s: an overlap at 0x%08x_0x%08x"
        ring_end = F.lit(RING_END).cast("bigint")
        faults = F.array_compact(
            F.array(
                F.when(
                    F.col("range_lower") > F.col("end_before"),
                    F.format_string(gap, "namespace", "end_before", "range_lower"),
                ),
                F.when(
                    F.col("range_lower") < F.col("end_before"),
                    F.format_string(overlap, "namespace", "range_lower", "range_upper"),
                ),
                F.when(
                    F.col("is_last") & (F.col("end") < ring_end), F.format_string(gap, "namespace", "end", ring_end)
                ),
            )
        )
        return ends.select(F.explode(faults).alias("detail"))


class OwnersAreRegistered(Rule):
    """A bundle whose owner is gone is about to move by itself; a plan made now would be wrong.

    Reads the bundles with what the table `brokers` says of the owner in `owner_is_registered`, null where it is silent.
    """

    description: str | None = "Every owned bundle's owner is a registered broker"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        is_homeless = F.col("owner").isNotNull() & ~F.coalesce("owner_is_registered", F.lit(False))
        owners = (
            rows.filter(is_homeless)
            .groupBy("owner")
            .agg(
                F.count("*").alias("bundles"),
                F.min("bundle").alias("first"),
                F.first("owner_is_registered").isNull().alias("is_unknown"),
            )
        )
        fault = F.when(F.col("is_unknown"), F.lit("is not among the brokers")).otherwise(F.lit("is not registered"))
        many = F.format_string("broker %s owns %,d bundles, such as %s, but %s", "owner", "bundles", "first", fault)
        one = F.format_string("broker %s owns bundle %s, but %s", "owner", "first", fault)
        return owners.select(F.when(F.col("bundles") == 1, one).otherwise(many).alias("detail"))


class LoadHasAnOwner(Rule):
    """Load without an owner means that ownership and load were not seen at the same time."""

    description: str | None = "Every bundle with load has an owner, unless it is being handed over"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        is_handed_over = F.col("state").isin([str(state) for state in ServiceUnitState if state.is_in_flight])
        has_load = (F.greatest(*RATES) > 0) | (F.greatest(*COUNTS) > 0)
        sentence = F.format_string(
            "bundle %s has load (%,d topics, %,.0f bytes/s in, %,.0f bytes/s out) but no owner",
            "bundle",
            "topics",
            "throughput_in_bytes_per_s",
            "throughput_out_bytes_per_s",
        )
        return rows.filter(F.col("owner").isNull() & has_load & ~is_handed_over).select(sentence.alias("detail"))


class BundleFiguresAreSane(Rule):
    """A negative or infinite rate would poison every sum that it enters."""

    description: str | None = "Rates and counts of bundles are finite and not negative"

    def find_breaches(self, rows: DataFrame) -> DataFrame:
        figures = F.explode(
            F.array(
                *(
                    F.struct(F.lit(name).alias("name"), F.col(name).cast("double").alias("value"))
                    for name in RATES + COUNTS
                )
            )
        )
        each = rows.select("bundle", figures.alias("figure"))
        sentence = F.format_string(
            "%s of bundle %s is %s", "figure.name", "bundle", F.col("figure.value").cast("string")
        )
        is_wrong = F.col("figure.value").isNull() | ~is_sane(F.col("figure.value"))
        return each.filter(is_wrong).select(sentence.alias("detail"))
