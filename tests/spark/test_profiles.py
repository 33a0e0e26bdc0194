"""Load profiles: exact percentiles in integer units, of the bundles that exist now."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple
from datetime import timedelta

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from evenkeel.adapters.lake.learnt import CalibrationStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.load import BundleProfile, CpuCalibration, HourlyPeak
from evenkeel.model.snapshot import Bundle
from evenkeel_spark.history import find_history
from evenkeel_spark.lake_frames import read_bundle_history, read_cpu_calibration, spark_schema
from evenkeel_spark.transforms.profiles import bundle_profiles, hourly_peaks
from support.lakes import CLUSTER, TAKEN_AT, make_bundle, make_random_bundles, shift_load, write_snapshot

LEFT = "public/default/0x00000000_0x80000000"
RIGHT = "public/default/0x80000000_0xffffffff"
WHOLE = "public/default/0x00000000_0xffffffff"


def read_history(spark: SparkSession, lake: Lake, snapshots: list[list[Bundle]], days: float = 7.0) -> DataFrame:
    """Snapshots an hour apart, oldest first, as the last one sees them."""
    last = None
    for ago, bundles in zip(range(len(snapshots) - 1, -1, -1), snapshots, strict=True):
        last = write_snapshot(lake, bundles, taken_at=TAKEN_AT - timedelta(hours=ago))
    assert last is not None
    return read_bundle_history(spark, lake, find_history(lake, CLUSTER, last.snapshot_id, days))


def test_profile_holds_now_percentiles_and_peak_in_integer_units(spark: SparkSession, lake: Lake) -> None:
    rates = [10.0, 40.0, 20.0, 30.0]
    snapshots = [
        [make_bundle(LEFT, msg_rate_in_per_s=rate, msg_rate_out_per_s=0.0005, throughput_in_bytes_per_s=rate + 0.5)]
        for rate in rates
    ]
    snapshots[-1][0] = make_bundle(
        LEFT,
        version_id=9,
        msg_rate_in_per_s=30.0,
        msg_rate_out_per_s=0.0005,
        throughput_in_bytes_per_s=30.5,
        topics=3,
        producers=4,
        consumers=5,
    )
    profiles = read_history(spark, lake, snapshots).transform(bundle_profiles)
    expected = BundleProfile(
        namespace="public/default",
        bundle=LEFT,
        owner="b1:8080",
        state="Owned",
        version_id=9,
        topics=3,
        sessions=9,
        samples=4,
        msg_rate_now_millis=30_001,
        msg_rate_p50_millis=25_001,
        # Rank 0.95 × 3 = 2.85 lies between 30.001 and 40.001 messages per second.
        msg_rate_p95_millis=38_501,
        msg_rate_peak_millis=40_001,
        throughput_in_now_bytes_per_s=31,
        throughput_in_p50_bytes_per_s=26,
        throughput_in_p95_bytes_per_s=40,
        throughput_in_peak_bytes_per_s=41,
        throughput_out_now_bytes_per_s=0,
        throughput_out_p50_bytes_per_s=0,
        throughput_out_p95_bytes_per_s=0,
        throughput_out_peak_bytes_per_s=0,
        cpu_weight_millis=1_000,
    )
    assertDataFrameEqual(profiles, spark.createDataFrame([astuple(expected)], spark_schema(BundleProfile)))


def test_messages_weigh_what_the_calibration_says_of_their_bundle_or_else_of_their_namespace(
    spark: SparkSession, lake: Lake
) -> None:
    learnt = [CpuCalibration("public/default", 1_500, 3, TAKEN_AT), CpuCalibration(LEFT, 700, 2, TAKEN_AT)]
    new_id = CalibrationStore(lake).write(CLUSTER, TAKEN_AT, learnt)
    calibration = read_cpu_calibration(spark, lake, CLUSTER, new_id)
    other = "public/other/0x00000000_0xffffffff"
    history = read_history(spark, lake, [[make_bundle(LEFT), make_bundle(RIGHT), make_bundle(other)]])
    profiles = history.transform(bundle_profiles, calibration).select("bundle", "cpu_weight_millis")
    expected = {LEFT: 700, RIGHT: 1_500, other: 1_000}
    assertDataFrameEqual(profiles, [Row(bundle=name, cpu_weight_millis=weight) for name, weight in expected.items()])


def test_figure_that_is_no_number_counts_as_nothing(spark: SparkSession, lake: Lake) -> None:
    rates = [float("nan"), float("inf"), -1.0, 5.0]
    history = read_history(spark, lake, [[make_bundle(LEFT, msg_rate_in_per_s=rate)] for rate in rates])
    profiles = history.transform(bundle_profiles).select("samples", "msg_rate_p50_millis", "msg_rate_peak_millis")
    assertDataFrameEqual(profiles, [Row(samples=4, msg_rate_p50_millis=0, msg_rate_peak_millis=5_000)])


def test_only_bundles_of_the_requested_snapshot_have_a_profile(spark: SparkSession, lake: Lake) -> None:
    history = read_history(spark, lake, [[make_bundle(WHOLE)], [make_bundle(LEFT), make_bundle(RIGHT, owner=None)]])
    profiles = history.transform(bundle_profiles).select("bundle", "owner", "samples")
    expected = [(LEFT, "b1:8080", 1), (RIGHT, None, 1)]
    assertDataFrameEqual(profiles, [Row(bundle=name, owner=owner, samples=n) for name, owner, n in expected])
    assert {row.bundle for row in history.transform(hourly_peaks).collect()} == {LEFT, RIGHT}


def test_history_ends_at_the_requested_snapshot_and_begins_some_days_before(spark: SparkSession, lake: Lake) -> None:
    wanted = ""
    for ago_h, rate in ((49, 900.0), (48, 5.0), (0, 1.0), (-1, 800.0)):
        taken_at = TAKEN_AT - timedelta(hours=ago_h)
        manifest = write_snapshot(lake, [make_bundle(LEFT, msg_rate_in_per_s=rate)], taken_at=taken_at)
        wanted = manifest.snapshot_id if ago_h == 0 else wanted
    history = read_bundle_history(spark, lake, find_history(lake, CLUSTER, wanted, days=2.0))
    profiles = history.transform(bundle_profiles).select("samples", "msg_rate_now_millis", "msg_rate_peak_millis")
    assertDataFrameEqual(profiles, [Row(samples=2, msg_rate_now_millis=1_000, msg_rate_peak_millis=5_000)])


def test_hourly_peaks_count_hours_from_monday_midnight_utc(spark: SparkSession, lake: Lake) -> None:
    last = None
    for ago, rate in ((timedelta(hours=13), 7.0), (timedelta(minutes=30), 2.0), (timedelta(minutes=10), 3.0)):
        bundle = make_bundle(LEFT, msg_rate_in_per_s=rate, throughput_out_bytes_per_s=rate)
        last = write_snapshot(lake, [bundle], taken_at=TAKEN_AT - ago)
    assert last is not None
    history = read_bundle_history(spark, lake, find_history(lake, CLUSTER, last.snapshot_id, days=7.0))
    sunday_23 = HourlyPeak(LEFT, 167, 1, 7_000, 0, 7)
    monday_11 = HourlyPeak(LEFT, 11, 2, 3_000, 0, 3)
    expected = spark.createDataFrame([astuple(sunday_23), astuple(monday_11)], spark_schema(HourlyPeak))
    assertDataFrameEqual(history.transform(hourly_peaks), expected)


@pytest.mark.parametrize("transform", [bundle_profiles, hourly_peaks])
def test_profiles_do_not_depend_on_partitioning(
    spark: SparkSession, lake: Lake, transform: Callable[[DataFrame], DataFrame]
) -> None:
    bundles = make_random_bundles(brokers=3, bundles_per_broker=10, seed=11, namespaces=3)
    history = read_history(spark, lake, [shift_load(bundles, factor) for factor in (0.31, 1.7, 0.9, 1.1)])
    assertDataFrameEqual(history.repartition(1).transform(transform), history.repartition(7).transform(transform))
