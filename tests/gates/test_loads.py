"""The gate judges a plan by the load that it was made for, whoever computes it."""

from __future__ import annotations

import dataclasses
import random

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from evenkeel.adapters.lake.store import to_arrow
from evenkeel.model.load import BundleProfile, HourlyPeak
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, Topic
from evenkeel_spark.cluster_loads import BUNDLE_COLUMNS
from evenkeel_spark.driver_loads import DriverLoads, ProfileTables
from evenkeel_spark.transforms.planning_loads import LoadTables, judged_rates, planned_rates, planning_loads
from evenkeel_spark.transforms.profiles import bundle_profiles
from support import small_cluster
from support.frames import frame_of
from support.small_cluster import B01, B03

HOURS = (3, 4)
SEED = 20260201


def make_profile(spark: SparkSession) -> LoadTables:
    """The small cluster carried half as much an hour ago and twice as much at four in the morning."""
    bundles = frame_of(spark, Bundle, small_cluster.bundles())
    rates = [name for name in bundles.columns if name.endswith("_per_s")]
    history = bundles.withColumn("snapshots_ago", F.lit(0))
    for ago, factor in ((1, 0.5), (2, 2.0)):
        past = bundles.withColumns({name: F.col(name) * factor for name in rates})
        history = history.unionByName(past.withColumn("snapshots_ago", F.lit(ago)))
    peaks = [
        HourlyPeak(b.bundle, hour, 1, 200_000 * hour, 10**7 * hour, 10**7 * hour)
        for b in small_cluster.bundles()
        for hour in HOURS
    ]
    return LoadTables(history.transform(bundle_profiles), frame_of(spark, HourlyPeak, peaks))


def judged_loads(spark: SparkSession, profile: LoadTables | None, settings: Settings) -> DataFrame:
    bundles = frame_of(spark, Bundle, small_cluster.bundles())
    rates = bundles.transform(judged_rates, profile, HOURS, settings)
    return rates.transform(planning_loads, small_cluster.brokers(), settings)


@pytest.mark.parametrize("planning_load", ["now", "p95", "peak"])
@pytest.mark.parametrize("bandwidth_model", ["bundles", "scaled"])
def test_gate_and_planner_see_the_same_load(spark: SparkSession, planning_load: str, bandwidth_model: str) -> None:
    settings = Settings.from_json({"planning_load": planning_load, "bandwidth_model": bandwidth_model})
    # Half of what the network carries is not the bundles'.
    brokers = [dataclasses.replace(b, bandwidth_in_usage_kbps=960_000.0) for b in small_cluster.brokers()]
    profile = make_profile(spark)
    planned = planned_rates(profile, HOURS, settings).transform(planning_loads, brokers, settings)
    rates = frame_of(spark, Bundle, small_cluster.bundles()).transform(judged_rates, profile, HOURS, settings)
    judged = rates.transform(planning_loads, brokers, settings)
    assertDataFrameEqual(judged.select(*planned.columns), planned)
    sums = {
        row["owner"]: row["sum"] for row in judged.groupBy("owner").agg(F.sum("throughput_out").alias("sum")).collect()
    }
    assert sums[B01] == {"now": 60_000_000, "p95": 114_000_000, "peak": 120_000_000}[planning_load]


@pytest.mark.parametrize("planning_load", ["now", "p95", "peak"])
@pytest.mark.parametrize("bandwidth_model", ["bundles", "scaled"])
@pytest.mark.parametrize("has_profile", [True, False])
def test_driver_computes_the_loads_that_spark_computes(
    spark: SparkSession, planning_load: str, bandwidth_model: str, has_profile: bool
) -> None:
    chance = random.Random(SEED)
    settings = Settings.from_json({"planning_load": planning_load, "bandwidth_model": bandwidth_model})
    bundles, brokers = random_bundles(chance), random_brokers(chance)
    profiles = [random_profile(chance, bundle) for bundle in bundles[2:]]
    peaks = [
        HourlyPeak(row.bundle, hour, 1, *chance.choices(range(10**9), k=3))
        for row in profiles
        for hour in (2, *HOURS)
        if chance.random() < 0.8
    ]
    tables = LoadTables(frame_of(spark, BundleProfile, profiles), frame_of(spark, HourlyPeak, peaks))
    held = ProfileTables(to_arrow(BundleProfile, profiles), to_arrow(HourlyPeak, peaks))
    frame = frame_of(spark, Bundle, bundles)
    on_spark = frame.transform(judged_rates, tables if has_profile else None, HOURS, settings)
    no_topics = to_arrow(Topic, [])
    on_driver = DriverLoads.of_snapshot(
        to_arrow(Bundle, bundles), held if has_profile else None, no_topics, brokers, HOURS, settings
    )
    assert rows_of(on_driver) == rows_in(on_spark.transform(planning_loads, brokers, settings)), f"seed {SEED}"
    planned = planned_rates(tables, HOURS, settings).transform(planning_loads, brokers, settings)
    for_planner = DriverLoads.of_profile(held, no_topics, brokers, HOURS, settings)
    assert rows_of(for_planner) == rows_in(planned), f"seed {SEED}"


def rows_of(loads: DriverLoads) -> list[tuple[object, ...]]:
    return sorted(zip(*(getattr(loads.columns, name).tolist() for name in BUNDLE_COLUMNS), strict=True), key=str)


def rows_in(loads: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in loads.select(*BUNDLE_COLUMNS).collect()), key=str)


def random_brokers(chance: random.Random) -> list[Broker]:
    """Brokers of which some measure nothing, and some more traffic than their bundles have."""
    return [
        dataclasses.replace(
            small_cluster.brokers()[0],
            broker_id=f"b{n}",
            cpu_usage_percent=chance.choice([None, 0.0, chance.uniform(1, 6_400)]),
            bandwidth_in_usage_kbps=chance.choice([None, chance.uniform(1, 4e8)]),
            bandwidth_out_usage_kbps=chance.uniform(1, 4e8),
        )
        for n in range(4)
    ]


def random_bundles(chance: random.Random) -> list[Bundle]:
    """Bundles of which some are idle, some belong to a stranger, and some have figures that are no numbers."""
    odd = [float("nan"), float("inf"), -1.0, 0.49999999999999994, 0.5, 2.5, 1e19]
    names = ("msg_rate_in_per_s", "throughput_in_bytes_per_s", "throughput_out_bytes_per_s")
    return [
        dataclasses.replace(
            small_cluster.bundles()[0],
            bundle=f"t/n/{place}",
            owner=chance.choice([None, "stranger", "b0", "b1", "b2", "b3"]),
            version_id=chance.choice([None, place]),
            **{name: chance.choice([*odd, chance.uniform(0, 1e10)]) for name in names},
        )
        for place in range(40)
    ]


def random_profile(chance: random.Random, bundle: Bundle) -> BundleProfile:
    names = [field.name for field in dataclasses.fields(BundleProfile)]
    figures = [name for name in names if name.endswith(("_millis", "_bytes_per_s"))]
    identity = {"namespace": "t/n", "bundle": bundle.bundle, "owner": bundle.owner, "state": "Owned", "version_id": 1}
    return BundleProfile(
        **identity, topics=1, sessions=2, samples=3, **{name: chance.randrange(1, 10**9) for name in figures}
    )


def test_owner_is_the_one_of_the_snapshot_whatever_the_profile_says(spark: SparkSession) -> None:
    profile = make_profile(spark)
    stale = dataclasses.replace(profile, bundle_profiles=profile.bundle_profiles.withColumn("owner", F.lit(B03)))
    loads = judged_loads(spark, stale, Settings())
    assert {row["bundle"]: row["owner"] for row in loads.collect()} == {
        b.bundle: b.owner for b in small_cluster.bundles()
    }


def test_bundle_that_the_profile_does_not_know_carries_nothing(spark: SparkSession) -> None:
    nothing = LoadTables(frame_of(spark, BundleProfile, []), frame_of(spark, HourlyPeak, []))
    rows = judged_loads(spark, nothing, Settings()).collect()
    assert len(rows) == 6
    assert {(row["throughput_in"], row["cpu_millipercent"], row["topics"]) for row in rows} == {(0, 0, 10)}
