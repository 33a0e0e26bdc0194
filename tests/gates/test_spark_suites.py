"""Great Expectations on Spark gives the verdict that the process gives, for every rule, on random broken data."""

from __future__ import annotations

import dataclasses
import importlib
import random
import subprocess
import sys
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from evenkeel.adapters.lake.store import to_arrow
from evenkeel.gates.plan_gate import judge_plan
from evenkeel.gates.rules import load_rules
from evenkeel.gates.snapshot_gate import judge_snapshot, judge_snapshot_on_spark
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument, SnapshotManifest
from evenkeel.model.verdict import Verdict
from support import small_cluster, small_plan
from support.frames import frame_of
from support.small_cluster import B01, B02, B03, TAKEN_AT

# Tests import `spark_suites` where they use it: Great Expectations would cost every test process seconds to collect.
SEEDS = range(12)
ODD = (float("nan"), float("inf"), -1.0, 0.0, 12.5)
ON_AN_EXECUTOR = """
import pickle, sys
sys.modules["great_expectations"] = None
list(pickle.load(sys.stdin.buffer)(iter([])))
"""
PLAN_SUITES = ("plan", "plan_violations", "plan_steps", "plan_brokers")


def break_broker(chance: random.Random, row: Broker) -> Broker:
    changes: list[dict[str, Any]] = [
        {"state": "Asleep"},
        {"state": "Inactive", "incarnation": None},
        {"state": "Initial", "reported_at": None},
        {"reported_at": None},
        {"reported_at": TAKEN_AT + timedelta(seconds=chance.choice([-9_000.5, 9_000, -1_800, -1_801]))},
        {"cpu_usage_percent": chance.choice(ODD)},
        {"memory_limit_mib": chance.choice(ODD)},
        {"cpu_limit_percent": None, "bandwidth_in_limit_kbps": None},
        {"bandwidth_out_usage_kbps": chance.choice([0.0, 1e6, 1e8])},
    ]
    return dataclasses.replace(row, **chance.choice(changes))


def break_bundle(chance: random.Random, row: Bundle) -> Bundle:
    changes: list[dict[str, Any]] = [
        {"state": "Dozing"},
        {"owner": None, "state": chance.choice(["Init", "Free", "Assigning"])},
        {"owner": chance.choice([B02, "b09.fleet:8080"])},
        {"range_lower": row.range_lower + chance.choice([-1, 1]) * 0x1000},
        {"range_upper": 0xFFFFFFFF},
        {"throughput_in_bytes_per_s": chance.choice(ODD)},
        {"msg_rate_out_per_s": chance.choice(ODD)},
        {"consumers": -3},
    ]
    return dataclasses.replace(row, **chance.choice(changes))


def break_some(chance: random.Random, rows: list[Any], breaker: Callable[[random.Random, Any], Any]) -> list[Any]:
    broken = [breaker(chance, row) if chance.random() < 0.4 else row for row in rows]
    kept = [row for row in broken if chance.random() < 0.9]
    return kept + [row for row in kept if chance.random() < 0.15]


def broken_snapshot(seed: int) -> tuple[SnapshotManifest, list[Broker], list[Bundle], list[PolicyDocument]]:
    """A snapshot with faults of all kinds, and four times the namespaces, so that partitions differ."""
    chance = random.Random(seed)
    bundles = [
        dataclasses.replace(row, namespace=f"{row.namespace}-{copy}", bundle=row.bundle.replace("/0x", f"-{copy}/0x"))
        for copy in range(4)
        for row in small_cluster.bundles()
    ]
    spare = small_cluster.brokers()[0]
    brokers = [*small_cluster.brokers(), *(dataclasses.replace(spare, broker_id=f"b1{n}.fleet:8080") for n in range(6))]
    policies = [
        PolicyDocument("isolation", "", '{"pinned": {"namespaces": ["shop/.*"]}}'),
        PolicyDocument("failure_domain", "zone-1", "{"),
        PolicyDocument("resource_quota", "", "{}"),
    ]
    manifest = small_cluster.manifest(
        brokers_without_report=tuple(chance.sample([B01, B03, "b07.fleet:8080"], chance.randrange(3))),
        notes=tuple(chance.sample(["no cores", "no NIC", "no heap", "no version", "no zone"], chance.randrange(6))),
    )
    return (
        manifest,
        break_some(chance, brokers, break_broker),
        break_some(chance, bundles, break_bundle),
        chance.sample(policies, chance.randrange(4)),
    )


def judge_both(spark: SparkSession, seed: int) -> tuple[Verdict, Verdict]:
    manifest, brokers, bundles, policies = broken_snapshot(seed)
    tables = small_cluster.tables(brokers, bundles, policies)
    frame = frame_of(spark, Bundle, bundles).repartition(1 + seed % 5)
    small = {name: table for name, table in tables.items() if name != "bundles"}
    return (
        judge_snapshot(manifest, tables, Settings()),
        judge_snapshot_on_spark(manifest, small, frame, Settings()),
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_broken_snapshot_gets_the_same_verdict_on_spark(spark: SparkSession, seed: int) -> None:
    in_process, on_spark = judge_both(spark, seed)
    assert on_spark == in_process, f"seed {seed}"
    assert not in_process.passed


def test_random_snapshots_break_every_rule_about_snapshots() -> None:
    broken = set()
    for seed in (*SEEDS, None):
        manifest, brokers, bundles, policies = broken_snapshot(seed or 0)
        tables = small_cluster.tables([] if seed is None else brokers, bundles, policies)
        verdict = judge_snapshot(manifest, tables, Settings())
        broken |= {check.name for check in verdict.checks if not check.passed}
    assert broken == {rule.name for rule in load_rules().values() if not rule.table.startswith("plan")}


@pytest.mark.parametrize("seed", SEEDS)
def test_broken_plan_gets_the_same_verdict_by_great_expectations(spark: SparkSession, seed: int) -> None:
    from evenkeel.gates.spark_suites import judge_frames

    chance = random.Random(seed)
    bundles = [*(row.bundle for row in small_cluster.bundles()), "shop/orders/0x10000000_0x20000000"]
    steps = [
        small_plan.step(
            order=order,
            wave=order // 2,
            kind=chance.choice(["transfer", "split"]),
            bundle=chance.choice(bundles),
            source=chance.choice([B01, B02]),
        )
        for order in range(chance.randrange(5))
    ]
    rows = small_plan.balances(after_mb=tuple(chance.choice([10, 40, 150]) for _ in range(3)), band_mb=32)
    expires_at = TAKEN_AT + timedelta(hours=chance.choice([-1, 4]))
    plan = small_plan.stored(steps, rows, expires_at=expires_at, truncated=chance.random() < 0.5)
    settings = dataclasses.replace(small_plan.SETTINGS, max_steps=2)
    snapshot = small_cluster.judged(settings)
    in_process = judge_plan(plan, snapshot, settings)
    by_gx = judge_plan(plan, snapshot, settings, lambda *arguments: judge_frames(spark, *arguments))
    assert by_gx == in_process, f"seed {seed}"
    assert {check.suite for check in by_gx.checks} == set(PLAN_SUITES)


def test_gate_on_spark_leaves_nothing_behind(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tables = small_cluster.tables()
    bundles = frame_of(spark, Bundle, small_cluster.bundles())
    verdict = judge_snapshot_on_spark(small_cluster.manifest(), tables, bundles, Settings())
    assert verdict.passed
    assert list(tmp_path.iterdir()) == []
    assert spark.sparkContext._jsc.getPersistentRDDs().size() == 0
    assert "Calculating Metrics" not in capfd.readouterr().err


def test_suite_on_spark_takes_one_job_a_large_table(spark: SparkSession) -> None:
    from evenkeel.gates.spark_suites import judge_frames

    tables = {
        "bundles": frame_of(spark, Bundle, small_cluster.bundles()),
        "owners": to_arrow(Broker, []).select([]),
    }
    tracker = spark.sparkContext.statusTracker()
    spark.sparkContext.setJobGroup("one suite", "")
    try:
        judge_frames(spark, "snapshot_bundles", tables, {})
        # The scan needs a shuffle of its own; the expectations read a local frame.
        assert len(tracker.getJobIdsForGroup("one suite")) <= 2
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", "")


def test_column_that_is_missing_on_spark_blocks(spark: SparkSession) -> None:
    tables = small_cluster.tables()
    frame = frame_of(spark, Bundle, small_cluster.bundles()).drop("consumers")
    verdict = judge_snapshot_on_spark(small_cluster.manifest(), tables, frame, Settings())
    assert {check.name for check in verdict.blocking} == {"load_has_an_owner", "bundle_figures_are_sane"}
    assert all("could not be judged (" in check.detail for check in verdict.blocking)


def test_executors_need_no_great_expectations() -> None:
    from evenkeel.gates.spark_suites import _reduce_partition

    cloudpickle: Any = importlib.import_module("pyspark.cloudpickle")
    sent = cloudpickle.dumps(_reduce_partition([("bundle_states_are_known", {})]))
    done = subprocess.run([sys.executable, "-c", ON_AN_EXECUTOR], input=sent, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
