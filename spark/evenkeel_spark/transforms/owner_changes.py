"""Who owned a bundle when: changes of owner between the snapshots of a history, and how much was to and fro."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evenkeel.model.audit import OwnerChange
from evenkeel_spark.lake_frames import select_table
from evenkeel_spark.transforms.columns import is_system, with_integer_loads

RETURN_WITHIN_S = 86_400
"""A bundle that comes back within a day has oscillated."""


def owner_changes(bundle_history: DataFrame) -> DataFrame:
    """Every change of owner in a history of bundles; snapshots in which a bundle had no owner are passed over."""
    loads = bundle_history.transform(with_integer_loads)
    owned = loads.where(F.col("owner").isNotNull() & ~is_system(F.col("namespace")))
    over_time = Window.partitionBy("bundle").orderBy("taken_at", "snapshot_id")
    earlier = {name: F.lag(name).over(over_time) for name in ("owner", "snapshot_id", "taken_at", "version_id")}
    changes = owned.withColumns({f"earlier_{name}": value for name, value in earlier.items()}).where(
        F.col("earlier_owner") != F.col("owner")
    )
    return (
        changes.transform(_with_returns)
        .select(
            "namespace",
            "bundle",
            F.col("earlier_owner").alias("source"),
            F.col("owner").alias("destination"),
            "earlier_snapshot_id",
            "snapshot_id",
            F.col("earlier_taken_at").alias("earlier_at"),
            F.col("taken_at").alias("seen_at"),
            (F.col("throughput_in") + F.col("throughput_out")).alias("moved_bytes_per_s"),
            (F.col("version_id") - F.col("earlier_version_id")).alias("version_steps"),
            "is_return",
        )
        .transform(select_table, OwnerChange)
    )


def _with_returns(changes: DataFrame) -> DataFrame:
    """Tell the changes that undo the one before it within a day: A → B, then B → A."""
    by_change = Window.partitionBy("bundle").orderBy("taken_at", "snapshot_id")
    left_from, left_at = F.lag("earlier_owner").over(by_change), F.lag("taken_at").over(by_change)
    is_return = (left_from == F.col("owner")) & (_seconds(F.col("taken_at")) - _seconds(left_at) <= RETURN_WITHIN_S)
    return changes.withColumn("is_return", F.coalesce(is_return, F.lit(False)))


def oscillation_figures(changes: DataFrame) -> DataFrame:
    """One row with the figures of `evenkeel.model.audit.Oscillation`."""
    per_day = changes.groupBy("bundle", F.to_date("seen_at").alias("day")).agg(F.count("*").alias("moves"))
    busiest = per_day.agg(F.coalesce(F.max("moves"), F.lit(0)).alias("most_moves_of_a_bundle_per_day"))
    first, last = F.min_by("source", "seen_at"), F.max_by("destination", "seen_at")
    bundles = changes.groupBy("bundle").agg(
        F.count("*").alias("moves"),
        F.sum(F.col("is_return").cast("long")).alias("returns"),
        F.sum("moved_bytes_per_s").alias("gross"),
        F.when(first != last, F.max_by("moved_bytes_per_s", "seen_at")).otherwise(F.lit(0)).alias("net"),
    )
    totals = bundles.agg(
        _total("moves").alias("moves"),
        _total("returns").alias("returns"),
        F.count("*").alias("bundles"),
        _total("gross").alias("gross_bytes_per_s"),
        _total("net").alias("net_bytes_per_s"),
    )
    return totals.crossJoin(busiest)


def _total(name: str) -> Column:
    return F.coalesce(F.sum(name), F.lit(0)).cast("long")


def _seconds(moment: Column) -> Column:
    return F.unix_micros(moment) / F.lit(1_000_000)
