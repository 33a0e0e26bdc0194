"""The gate judges a plan by the load that it was made for."""

from __future__ import annotations

import dataclasses

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from evenkeel.gates.frames import SnapshotFrames, frame_of
from evenkeel.gates.loads import bundle_loads
from evenkeel.model.load import BundleProfile, HourlyPeak
from evenkeel.model.settings import Settings
from evenkeel_spark.transforms.planned_rates import LoadTables, planned_rates
from evenkeel_spark.transforms.planning_loads import planning_loads
from evenkeel_spark.transforms.profiles import bundle_profiles
from support import small_cluster
from support.small_cluster import B01, B03

HOURS = (3, 4)


def frames_with_profile(spark: SparkSession) -> SnapshotFrames:
    """The small cluster, which carried half as much an hour ago and twice as much at four in the morning."""
    frames = small_cluster.frames(spark)
    rates = [name for name in frames.bundles.columns if name.endswith("_per_s")]
    history = frames.bundles.withColumn("snapshots_ago", F.lit(0))
    for ago, factor in ((1, 0.5), (2, 2.0)):
        past = frames.bundles.withColumns({name: F.col(name) * factor for name in rates})
        history = history.unionByName(past.withColumn("snapshots_ago", F.lit(ago)))
    bundles = small_cluster.bundles()
    peaks = [
        HourlyPeak(b.bundle, hour, 1, 200_000 * hour, 10**7 * hour, 10**7 * hour) for b in bundles for hour in HOURS
    ]
    profiles = history.transform(bundle_profiles)
    return dataclasses.replace(frames, profile=LoadTables(profiles, frame_of(spark, HourlyPeak, peaks)))


@pytest.mark.parametrize("planning_load", ["now", "p95", "peak"])
@pytest.mark.parametrize("bandwidth_model", ["bundles", "scaled"])
def test_gate_and_planner_see_the_same_load(spark: SparkSession, planning_load: str, bandwidth_model: str) -> None:
    settings = Settings.from_json({"planning_load": planning_load, "bandwidth_model": bandwidth_model})
    # Half of what the network carries is not the bundles'.
    brokers = [dataclasses.replace(b, bandwidth_in_usage_kbps=960_000.0) for b in small_cluster.brokers()]
    frames = frames_with_profile(spark)
    assert frames.profile is not None
    planned = planned_rates(frames.profile, HOURS, settings).transform(planning_loads, brokers, settings)
    judged = bundle_loads(frames, brokers, HOURS, settings)
    assertDataFrameEqual(judged.select(*planned.columns), planned)
    sums = {
        row["owner"]: row["sum"] for row in judged.groupBy("owner").agg(F.sum("throughput_out").alias("sum")).collect()
    }
    assert sums[B01] == {"now": 60_000_000, "p95": 114_000_000, "peak": 120_000_000}[planning_load]


def test_owner_is_the_one_of_the_snapshot_whatever_the_profile_says(spark: SparkSession) -> None:
    frames = frames_with_profile(spark)
    assert frames.profile is not None
    stale = frames.profile.bundle_profiles.withColumn("owner", F.lit(B03))
    frames = dataclasses.replace(frames, profile=dataclasses.replace(frames.profile, bundle_profiles=stale))
    loads = bundle_loads(frames, small_cluster.brokers(), HOURS, Settings())
    assert {row["bundle"]: row["owner"] for row in loads.collect()} == {
        b.bundle: b.owner for b in small_cluster.bundles()
    }


def test_bundle_that_the_profile_does_not_know_carries_nothing(spark: SparkSession) -> None:
    frames = small_cluster.frames(spark)
    nothing = LoadTables(frame_of(spark, BundleProfile, []), frame_of(spark, HourlyPeak, []))
    loads = bundle_loads(dataclasses.replace(frames, profile=nothing), small_cluster.brokers(), HOURS, Settings())
    rows = loads.collect()
    assert len(rows) == 6
    assert {(row["throughput_in"], row["cpu_millipercent"], row["topics"]) for row in rows} == {(0, 0, 10)}
