"""Which snapshot a run plans from, how its request is named, how a Spark job is submitted."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.sdk import DAG

from evenkeel.adapters.lake import Lake, to_arrow
from evenkeel.adapters.snapshots import SnapshotContent, SnapshotStore
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SNAPSHOT_TABLES, LoadManager
from evenkeel.model.verdict import Check, Severity, Verdict
from evenkeel.orchestration.planning import find_gated_snapshot, has_steps, name_request, submit_spark_job

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def store_snapshot(lake: Lake, minute: int, passed: bool | None) -> str:
    """A snapshot taken at a minute, with a gate that passed, blocked or did not speak."""
    tables = {name: to_arrow(table, []) for name, table in SNAPSHOT_TABLES.items()}
    store = SnapshotStore(lake)
    taken_at = MIDNIGHT + timedelta(minutes=minute)
    manifest = store.write(SnapshotContent("east", taken_at, LoadManager.EXTENSIBLE, tables))
    if passed is not None:
        check = Check("brokers", "fresh", Severity.CRITICAL, passed, "reports are fresh", "one is old")
        store.write_verdict(manifest, Settings(), Verdict(manifest.snapshot_id, (check,), "0.1.0"))
    return manifest.snapshot_id


def test_newest_snapshot_that_passed_is_planned_from(lake: Lake) -> None:
    store_snapshot(lake, 0, passed=True)
    wanted = store_snapshot(lake, 5, passed=True)
    store_snapshot(lake, 10, passed=False)
    store_snapshot(lake, 15, passed=None)
    assert find_gated_snapshot(lake, "east", Settings()) == wanted


def test_without_a_passed_snapshot_nothing_is_planned(lake: Lake) -> None:
    store_snapshot(lake, 0, passed=False)
    with pytest.raises(InputError, match="no snapshot of cluster 'east'"):
        find_gated_snapshot(lake, "east", Settings())


def test_request_is_named_after_run_and_try() -> None:
    run_id = "manual__2026-03-01T00:00:00+00:00"
    assert name_request(run_id, 1) == "manual__2026-03-01T00-00-00-00-00-1"
    assert name_request(run_id, 2) != name_request(run_id, 1)


def test_job_gets_lake_and_request_only_and_runs_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with DAG("any"):
        task = submit_spark_job(Path("/jobs/profile_load.py"), {"lake": "file:///lake", "request_id": "r-1"})
    assert task.task_id == "profile_load"
    assert task.application_args == ["--lake", "file:///lake", "--request", "r-1"]
    assert task.env_vars == {"PYSPARK_PYTHON": sys.executable}


@pytest.mark.parametrize(("counts", "goes_on"), [({"transfers": 2, "splits": 0}, True), ({"transfers": 0}, False)])
def test_plan_without_steps_ends_the_run(counts: dict[str, int], goes_on: bool) -> None:
    assert has_steps.function({"step_counts": counts}) is goes_on
