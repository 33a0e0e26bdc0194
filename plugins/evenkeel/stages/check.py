"""Judge a snapshot or a plan by its gate, and keep the verdict beside what was judged."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.gates import judge_plan, judge_snapshot
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SnapshotManifest
from evenkeel.model.verdict import Verdict
from evenkeel.planning.report import render_report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.gates.frames import SnapshotFrames


def check_snapshot(lake: Lake, cluster: str, snapshot_id: str | None, settings: Settings, master: str) -> Verdict:
    """Judge a snapshot once by the same settings; a verdict that is already stored stands."""
    snapshots = SnapshotStore(lake)
    manifest = snapshots.load(cluster, snapshot_id)
    stored = snapshots.read_verdict(manifest, settings)
    if stored is not None:
        return stored
    with _spark("evenkeel check snapshot", master) as spark:
        verdict = judge_snapshot(spark, manifest, _frames(spark, lake, manifest), settings)
    snapshots.write_verdict(manifest, settings, verdict)
    return verdict


def check_plan(lake: Lake, plan: str, master: str) -> Verdict:
    """Judge a plan by the settings that it was made with, keep the verdict, and render the report."""
    plans = PlanStore(lake)
    stored = plans.load(plan)
    verdict = plans.read_verdict(stored.plan_id)
    if verdict is None:
        manifest = SnapshotStore(lake).load(stored.plan.cluster, stored.plan.snapshot_id)
        settings = Settings.from_json(stored.plan.settings, stored.uri)
        with _spark("evenkeel check plan", master) as spark:
            verdict = judge_plan(spark, stored, _frames(spark, lake, manifest, stored.plan.profile_id), settings)
        plans.write_verdict(stored.plan_id, verdict)
    report = render_report(stored.plan, stored.steps, stored.rejections, stored.brokers, verdict)
    plans.write_report(stored.plan_id, report)
    return verdict


@contextmanager
def _spark(name: str, master: str) -> Iterator[SparkSession]:
    from evenkeel_spark.session import open_session

    session = open_session(name, master)
    try:
        yield session
    finally:
        session.stop()


def _frames(
    spark: SparkSession, lake: Lake, manifest: SnapshotManifest, profile_id: str | None = None
) -> SnapshotFrames:
    from evenkeel.gates.frames import SnapshotFrames
    from evenkeel_spark.artifacts import read_load_tables
    from evenkeel_spark.io import read_snapshot_table

    tables = {name: read_snapshot_table(spark, lake, manifest, name) for name in manifest.tables}
    return SnapshotFrames(**tables, profile=read_load_tables(spark, lake, profile_id) if profile_id else None)
