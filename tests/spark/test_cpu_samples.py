"""Cpu is sampled where it can be trusted, and the next plan uses the weights that were learnt from it."""

from __future__ import annotations

from datetime import timedelta

from pyspark.sql import SparkSession

from evenkeel import __version__
from evenkeel.adapters.lake.learnt import CalibrationStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.load import CpuCalibration
from evenkeel.model.run import RunRecord, RunState
from evenkeel.model.settings import Settings
from evenkeel.model.timestamps import format_time
from evenkeel_spark.artifacts import PROFILES, FrameStore
from evenkeel_spark.audits import sample_cpu
from evenkeel_spark.job import run
from evenkeel_spark.jobs import profile_load
from support.lakes import CLUSTER, TAKEN_AT, make_broker, make_bundle, write_request, write_snapshot

WHOLE = "acme/orders/0x00000000_0xffffffff"


def test_nothing_is_learnt_from_silent_or_full_brokers_nor_during_a_run(spark: SparkSession, lake: Lake) -> None:
    minute = timedelta(minutes=1)
    began, ended = TAKEN_AT + 10 * minute, TAKEN_AT + 20 * minute
    a_run = RunRecord(
        "r1", "p1", CLUSTER, 1, RunState.DONE, format_time(began), format_time(ended), False, (), "", __version__
    )
    manifests = []
    for minutes in (0, 5, 15, 25):
        at = TAKEN_AT + minutes * minute
        brokers = [
            make_broker("b1:8080", reported_at=at),
            make_broker("full:8080", reported_at=at, cpu_usage_percent=799.0),
            make_broker("silent:8080", reported_at=None, cpu_usage_percent=None),
            # Its report is fresh, but older than the run.
            make_broker("late:8080", reported_at=TAKEN_AT),
        ]
        bundles = [make_bundle(WHOLE, "b1:8080", msg_rate_in_per_s=10.0 + minutes)]
        manifests.append(write_snapshot(lake, bundles, brokers, taken_at=at))
    settings = Settings(broker_load_data_ttl_in_seconds=3_000)
    samples = sample_cpu(spark, lake, manifests, [a_run], settings)
    # Before the run: b1 and late, averaged over two snapshots; after it: b1 alone.
    assert sorted(samples.cpu_share.tolist()) == [0.5, 0.5, 0.5]
    assert sorted(samples.msg_rate_millis.tolist()) == [12_500.0, 35_000.0]


def test_next_plan_uses_the_learnt_weights_unless_it_is_told_not_to(spark: SparkSession, lake: Lake) -> None:
    learnt = CalibrationStore(lake).write(CLUSTER, TAKEN_AT, [CpuCalibration("acme/orders", 2_500, 9, TAKEN_AT)])
    manifest = write_snapshot(lake, [make_bundle(WHOLE)], taken_at=TAKEN_AT + timedelta(seconds=1))
    for name, settings, used, weight in (
        ("with", Settings(), learnt, 2_500),
        ("without", Settings(use_learnt_costs=False), None, 1_000),
    ):
        write_request(lake, manifest.snapshot_id, name, settings)
        answer = run("profile_load", profile_load, lake.uri, name, lambda: spark)
        assert answer["cpu_calibration_id"] == used
        profiles = FrameStore(lake, PROFILES).read_table(answer["profile_id"], "bundle_profiles")
        assert profiles["cpu_weight_millis"].to_pylist() == [weight]
