"""Bundles to split, by the conditions of PIP-192: over a threshold in enough snapshots in a row.

Input is the bundle history of `evenkeel_spark.lake_frames`, and settings without a threshold on auto. Comparisons are
strict, as in Pulsar. Where to cut the candidates is found from their topics, by `SparkLoads.find_cuts`.
"""

from __future__ import annotations

from collections.abc import Collection

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.settings import Settings
from evenkeel_spark.transforms.columns import is_system
from evenkeel_spark.transforms.profiles import is_now

MIB = 1 << 20
FEWEST_TOPICS = 2
CANDIDATE_COLUMNS = (
    "namespace",
    "bundle",
    "reason",
    "hits",
    "topics",
    "sessions",
    "msg_rate_per_s",
    "throughput_bytes_per_s",
    "rank",
    "namespace_bundles",
)
"""What is known of a `SplitCandidate` before its cut is."""


def split_candidates(bundle_history: DataFrame, settings: Settings, left_whole: Collection[str] = ()) -> DataFrame:
    """The bundles to split in this cycle, ranked: hottest first, ties by name; none of the namespaces `left_whole`."""
    rows = bundle_history.transform(_with_reason, settings)
    now = rows.where(is_now())
    hits = rows.transform(_count_hits)
    has_lasted = F.col("hits") > settings.namespace_bundle_split_condition_hit_count_threshold
    may_be_touched = ~F.col("namespace").isin(sorted(left_whole))
    hot = now.where(can_be_split() & may_be_touched & F.col("reason").isNotNull())
    return (
        hot.join(hits, on="bundle", how="inner")
        .where(has_lasted)
        .transform(_without_conflicts, now)
        .transform(_keep_below_namespace_cap, now, settings.namespace_maximum_bundles)
        .transform(_keep_first, settings.max_number_of_bundles_to_split_per_cycle)
        .select(*CANDIDATE_COLUMNS)
    )


def first_condition_met(settings: Settings) -> Column:
    """The first condition that a row meets, in Pulsar's order; null where it meets none."""
    thresholds = settings.split_thresholds
    has_many_topics = F.col("topics") > thresholds.topics
    has_many_sessions = F.col("sessions") > thresholds.sessions
    has_high_rate = F.col("msg_rate_per_s") > thresholds.msg_rate
    has_high_bandwidth = F.col("throughput_bytes_per_s") > thresholds.bandwidth_mbytes * MIB
    counts_sessions = F.lit(thresholds.sessions > 0)
    return (
        F.when(has_many_topics, "Topics")
        .when(counts_sessions & has_many_sessions, "Sessions")
        .when(has_high_rate, "MsgRate")
        .when(has_high_bandwidth, "Bandwidth")
    )


def can_be_split() -> Column:
    """Whether a bundle has an owner at rest, two topics to part, and a range wide enough to be cut."""
    is_owned = F.col("owner").isNotNull() & (F.col("state") == str(ServiceUnitState.OWNED))
    has_topics_to_part = F.col("topics") >= FEWEST_TOPICS
    is_wide_enough = F.col("range_upper") - F.col("range_lower") > 1
    return is_owned & has_topics_to_part & is_wide_enough & ~is_system(F.col("namespace"))


def _with_reason(bundle_history: DataFrame, settings: Settings) -> DataFrame:
    loads = bundle_history.select(
        "snapshots_ago",
        "namespace",
        "bundle",
        "range_lower",
        "range_upper",
        "owner",
        "state",
        "topics",
        (F.col("producers") + F.col("consumers")).alias("sessions"),
        (F.col("msg_rate_in_per_s") + F.col("msg_rate_out_per_s")).alias("msg_rate_per_s"),
        (F.col("throughput_in_bytes_per_s") + F.col("throughput_out_bytes_per_s")).alias("throughput_bytes_per_s"),
    )
    return loads.withColumn("reason", first_condition_met(settings))


def _count_hits(rows: DataFrame) -> DataFrame:
    """Snapshots in a row, the last included, in which each bundle met a condition; a miss ends the row."""
    hot_now = rows.where(is_now() & F.col("reason").isNotNull()).select("bundle")
    hits = rows.where(F.col("reason").isNotNull()).join(hot_now, on="bundle", how="left_semi")
    newest_first = (
        Window.partitionBy("bundle").orderBy("snapshots_ago").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    # The n-th hit back counts only if it is n - 1 snapshots back: a miss, or a snapshot without the bundle, leaves a
    # gap between the two numbers for good.
    is_unbroken = F.col("snapshots_ago") == F.col("place") - 1
    return (
        hits.withColumn("place", F.row_number().over(newest_first))
        .where(is_unbroken)
        .groupBy("bundle")
        .agg(F.count("*").alias("hits"))
    )


def _without_conflicts(candidates: DataFrame, now: DataFrame) -> DataFrame:
    """Without the bundles that share an end of their range with one of their namespace that is splitting now."""
    splitting = now.where(F.col("state") == str(ServiceUnitState.SPLITTING))
    for end in ("range_lower", "range_upper"):
        candidates = candidates.join(splitting.select("namespace", end), on=["namespace", end], how="left_anti")
    return candidates


def _keep_below_namespace_cap(candidates: DataFrame, now: DataFrame, most_bundles: int) -> DataFrame:
    """Only as many of a namespace's candidates, hottest first, as leave it within its cap."""
    bundle_counts = now.groupBy("namespace").agg(F.count("*").alias("namespace_bundles"))
    in_namespace = (
        Window.partitionBy("namespace")
        .orderBy(*_hottest_first())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    chosen_before = F.col("place_in_namespace") - 1
    return (
        candidates.join(bundle_counts, on="namespace", how="inner")
        .withColumn("place_in_namespace", F.row_number().over(in_namespace))
        .where(F.col("namespace_bundles") + chosen_before < most_bundles)
    )


def _keep_first(candidates: DataFrame, most_splits: int) -> DataFrame:
    """The first few candidates of the cluster, with their rank."""
    # One partition is right here: candidates are few, and a rank is a total order.
    everywhere = (
        Window.partitionBy(F.lit(0))
        .orderBy(*_hottest_first())
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    return candidates.withColumn("rank", F.row_number().over(everywhere)).where(F.col("rank") <= most_splits)


def _hottest_first() -> list[Column]:
    loads = ("throughput_bytes_per_s", "msg_rate_per_s", "sessions", "topics")
    return [*(F.desc(load) for load in loads), F.asc("bundle")]
