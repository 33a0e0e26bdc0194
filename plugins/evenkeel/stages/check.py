"""Judge a snapshot or a plan by its gate, and keep the verdict beside what was judged.

Snapshots of up to `MOST_BUNDLES_IN_PROCESS` bundles are judged in this process; Spark starts for larger ones only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.execution.measures import measure_plan
from evenkeel.gates.expected_checks import expect_of_plan, expect_of_snapshot
from evenkeel.gates.snapshot_gate import MOST_BUNDLES_IN_PROCESS
from evenkeel.model.approval import ApprovalRules
from evenkeel.model.metrics import render_metrics
from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SnapshotManifest
from evenkeel.model.verdict import Subject, Verdict
from evenkeel_spark.application import SparkApplication

if TYPE_CHECKING:
    from evenkeel_spark.cluster_loads import ClusterLoads
    from evenkeel_spark.history import Cluster


def check_snapshot(lake: Lake, cluster: str, snapshot_id: str | None, settings: Settings, master: str) -> Verdict:
    """Judge a snapshot once by the same settings; a verdict that is already stored stands."""
    with SparkApplication("evenkeel check", master) as spark:
        return check_snapshot_on(spark, lake, cluster, snapshot_id, settings)


def check_snapshot_on(
    spark: SparkApplication, lake: Lake, cluster: str, snapshot_id: str | None, settings: Settings
) -> Verdict:
    """The same by an application that the caller has, and that starts only where it is needed."""
    snapshots = SnapshotStore(lake)
    manifest = snapshots.load(cluster, snapshot_id)
    stored = snapshots.read_verdict(manifest, settings)
    if stored is not None:
        stored.require_from(expect_of_snapshot(settings), Subject.SNAPSHOT, manifest.snapshot_id)
        return stored
    verdict = _judge_snapshot(spark, lake, manifest, settings)
    snapshots.write_verdict(manifest, settings, verdict)
    return verdict


def check_plan(lake: Lake, plan: str, master: str, approval_rules: ApprovalRules) -> Verdict:
    """Judge a plan by the settings that it was made with, keep the verdict, and render the report."""
    from evenkeel.report import render_report

    plans = PlanStore(lake)
    stored = plans.load(plan)
    verdict = plans.read_verdict(stored.plan_id)
    if verdict is not None:
        verdict.require_from(expect_of_plan(stored.plan.strategy), Subject.PLAN, stored.plan_id)
    else:
        manifest = SnapshotStore(lake).load(stored.plan.cluster, stored.plan.snapshot_id)
        with SparkApplication("evenkeel check", master) as spark:
            verdict = _judge_plan(spark, lake, stored, manifest)
        plans.write_verdict(stored.plan_id, verdict)
    approval = approval_rules.describe()
    report = render_report(stored.plan, stored.steps, stored.rejections, stored.brokers, verdict, approval)
    plans.write_report(stored.plan_id, report)
    measured = measure_plan(stored.plan, stored.plan_id, stored.rejections, verdict)
    plans.write_metrics(stored.plan_id, render_metrics(stored.plan.cluster, measured))
    return verdict


def _judge_snapshot(spark: SparkApplication, lake: Lake, manifest: SnapshotManifest, settings: Settings) -> Verdict:
    from evenkeel.gates.snapshot_gate import judge_snapshot, judge_snapshot_on_spark

    snapshots = SnapshotStore(lake)
    tables = {name: snapshots.read_table(manifest, name) for name in ("brokers", "policies")}
    if manifest.tables["bundles"].rows <= MOST_BUNDLES_IN_PROCESS:
        tables["bundles"] = snapshots.read_table(manifest, "bundles")
        return judge_snapshot(manifest, tables, settings)
    from evenkeel_spark.lake_frames import read_snapshot_table

    return judge_snapshot_on_spark(manifest, tables, read_snapshot_table(spark(), lake, manifest, "bundles"), settings)


def _judge_plan(spark: SparkApplication, lake: Lake, stored: StoredPlan, manifest: SnapshotManifest) -> Verdict:
    from evenkeel.gates.plan_gate import JudgedSnapshot, judge_plan
    from evenkeel_spark.driver_loads import MOST_TOPICS_IN_PROCESS
    from evenkeel_spark.history import read_cluster

    settings = Settings.from_json(stored.plan.settings, stored.uri)
    cluster = read_cluster(lake, manifest.cluster, manifest.snapshot_id)
    # Topics are read only where a plan splits bundles.
    has_splits = any(step.kind == StepKind.SPLIT for step in stored.steps)
    is_small = manifest.tables["bundles"].rows <= MOST_BUNDLES_IN_PROCESS and (
        not has_splits or manifest.tables["topics"].rows <= MOST_TOPICS_IN_PROCESS
    )
    if is_small:
        loads = _loads_in_process(lake, stored, cluster, settings, has_splits)
        return judge_plan(stored, JudgedSnapshot(cluster.brokers, cluster.policies, loads), settings)
    from evenkeel.gates.spark_suites import judge_frames

    session = spark()
    loads = _loads_on_spark(spark, lake, stored, cluster, settings)
    return judge_plan(
        stored,
        JudgedSnapshot(cluster.brokers, cluster.policies, loads),
        settings,
        lambda suite, tables, parameters: judge_frames(session, suite, tables, parameters),
    )


def _loads_in_process(
    lake: Lake, stored: StoredPlan, cluster: Cluster, settings: Settings, has_splits: bool
) -> ClusterLoads:
    from evenkeel.adapters.lake.store import to_arrow
    from evenkeel.gates.plan_gate import plan_hours
    from evenkeel.model.snapshot import Topic
    from evenkeel_spark.driver_loads import DriverLoads, read_profile

    snapshots = SnapshotStore(lake)
    return DriverLoads.of_snapshot(
        bundles=snapshots.read_table(cluster.manifest, "bundles"),
        profile=read_profile(lake, stored.plan.profile_id) if stored.plan.profile_id else None,
        topics=snapshots.read_table(cluster.manifest, "topics") if has_splits else to_arrow(Topic, []),
        brokers=cluster.brokers,
        hours=plan_hours(stored.plan, settings),
        settings=settings,
    )


def _loads_on_spark(
    spark: SparkApplication, lake: Lake, stored: StoredPlan, cluster: Cluster, settings: Settings
) -> ClusterLoads:
    from evenkeel.gates.plan_gate import plan_hours
    from evenkeel_spark.lake_frames import read_load_tables, read_snapshot_table
    from evenkeel_spark.spark_loads import SparkLoads
    from evenkeel_spark.transforms.planning_loads import judged_rates, planning_loads

    session, manifest = spark(), cluster.manifest
    profile = read_load_tables(session, lake, stored.plan.profile_id) if stored.plan.profile_id else None
    bundles = read_snapshot_table(session, lake, manifest, "bundles")
    rates = judged_rates(bundles, profile, plan_hours(stored.plan, settings), settings)
    loads = rates.transform(planning_loads, cluster.brokers, settings)
    return SparkLoads(loads, read_snapshot_table(session, lake, manifest, "topics"))
