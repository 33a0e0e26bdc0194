"""Which snapshot is planned from, how a request is named, how a Spark job is submitted."""

from __future__ import annotations

import sys
import zipfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake, to_arrow
from evenkeel.gates.expected_checks import expect_of_snapshot
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.run import RunRecord, RunState
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SNAPSHOT_TABLES, LoadManager
from evenkeel.model.timestamps import format_time
from evenkeel.model.verdict import Subject, Verdict
from evenkeel.orchestration.clusters import DagCluster
from evenkeel.orchestration.planning import estimate_seconds, has_steps, name_request, submit_plan
from evenkeel.stages.request_check import find_recent_snapshot, require_fresh, require_not_applied
from support import small_plan
from support.approvals import make_verdict

MIDNIGHT = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path))


def store_snapshot(lake: Lake, minute: int, passed: bool | None) -> str:
    """Store a snapshot taken at a minute whose gate passed, blocked or did not run."""
    tables = {name: to_arrow(table, []) for name, table in SNAPSHOT_TABLES.items()}
    store = SnapshotStore(lake)
    taken_at = MIDNIGHT + timedelta(minutes=minute)
    manifest = store.write(SnapshotContent("east", taken_at, LoadManager.EXTENSIBLE, tables))
    if passed is not None:
        gate = expect_of_snapshot(Settings())
        verdict = make_verdict(gate, Subject.SNAPSHOT, manifest.snapshot_id, passed)
        store.write_verdict(manifest, Settings(), verdict)
    return manifest.snapshot_id


def at(minute: int) -> datetime:
    return MIDNIGHT + timedelta(minutes=minute)


def store_run(lake: Lake, minute: int, plan_id: str = "a" * 64) -> None:
    ended = format_time(at(minute))
    run = RunRecord(f"run-{minute}", plan_id, "east", 1, RunState.DONE, ended, ended, False, (), "", "0.1.0")
    RunStore(lake).write(run)


def test_newest_snapshot_that_passed_is_planned_from(lake: Lake) -> None:
    store_snapshot(lake, 0, passed=True)
    wanted = store_snapshot(lake, 5, passed=True)
    store_snapshot(lake, 6, passed=False)
    store_snapshot(lake, 7, passed=None)
    assert find_recent_snapshot(lake, "east", Settings(), at(8)) == wanted


@pytest.mark.parametrize(("minute", "is_used"), [(15, True), (16, False)])
def test_snapshot_is_planned_from_only_while_it_is_recent(lake: Lake, minute: int, is_used: bool) -> None:
    found = store_snapshot(lake, 5, passed=True)
    assert find_recent_snapshot(lake, "east", Settings(), at(minute)) == (found if is_used else None)


def test_snapshot_from_before_the_last_run_is_never_planned_from(lake: Lake) -> None:
    old = store_snapshot(lake, 0, passed=True)
    store_run(lake, 5)
    assert find_recent_snapshot(lake, "east", Settings(), at(6)) is None
    with pytest.raises(RefusedError, match="is older than the last run, which ended at 2026-03-01T00:05:00"):
        require_fresh(lake, "east", old, Settings())
    new = store_snapshot(lake, 6, passed=True)
    assert find_recent_snapshot(lake, "east", Settings(), at(7)) == new == require_fresh(lake, "east", new, Settings())


@pytest.mark.parametrize(("passed", "sentence"), [(False, "the gate blocks"), (None, "has not passed its gate")])
def test_snapshot_that_was_asked_for_must_have_passed_its_gate(lake: Lake, passed: bool | None, sentence: str) -> None:
    with pytest.raises(RefusedError, match=sentence):
        require_fresh(lake, "east", store_snapshot(lake, 0, passed), Settings())
    with pytest.raises(InputError, match="no snapshot"):
        require_fresh(lake, "east", "20990101", Settings())


def test_snapshot_with_a_forged_verdict_is_not_used(lake: Lake, caplog: pytest.LogCaptureFixture) -> None:
    wanted, forged = store_snapshot(lake, 0, passed=True), store_snapshot(lake, 5, passed=None)
    store = SnapshotStore(lake)
    empty = Verdict(Subject.SNAPSHOT, forged, {}, (), "0.1.0")
    store.write_verdict(store.load("east", forged), Settings(), empty)
    with caplog.at_level("INFO"):
        assert find_recent_snapshot(lake, "east", Settings(), at(6)) == wanted
    assert f"snapshot {forged} is not used" in caplog.text


def test_plan_that_was_applied_is_never_offered_again(lake: Lake) -> None:
    store_run(lake, 5, "b" * 64)
    require_not_applied(lake, "a" * 64, "east")
    with pytest.raises(RefusedError, match="was applied already, by run run-5"):
        require_not_applied(lake, "b" * 64, "east")


def test_request_is_named_after_run_and_try() -> None:
    run_id = "manual__2026-03-01T00:00:00+00:00"
    assert name_request(run_id, 1) == "manual__2026-03-01T00-00-00-00-00-1"
    assert name_request(run_id, 2) != name_request(run_id, 1)


def test_application_gets_only_lake_and_request_and_runs_this_python(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    with DAG("any"):
        task = submit_plan(DagCluster(), {"lake": "file:///lake", "request_id": "r-1"})
    assert task.task_id == "make_plan"
    assert task.application_args == ["--lake", "file:///lake", "--request", "r-1"]
    assert task.env_vars == {"PYSPARK_PYTHON": sys.executable}


def test_executors_get_the_packages_with_the_submission(monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[tuple[str, bool]] = []

    def submit(operator: SparkSubmitOperator, context: object) -> None:
        submitted.append((str(operator.py_files), zipfile.is_zipfile(str(operator.py_files))))

    monkeypatch.setattr(SparkSubmitOperator, "execute", submit)
    with DAG("any"):
        task = submit_plan(DagCluster(), {"lake": "file:///lake", "request_id": "r-1"})
    assert not task.py_files, "nothing is built when a Dag is parsed"
    task.execute({})
    ((archive, was_zip),) = submitted
    assert was_zip
    assert archive.endswith(".zip"), "a wheel would stay with the driver"


@pytest.mark.parametrize(
    ("counts", "plan_only", "goes_on"),
    [
        ({"transfers": 2, "splits": 0}, False, True),
        ({"transfers": 0}, False, False),
        ({"transfers": 2}, True, False),
    ],
)
def test_plan_without_steps_or_for_its_own_sake_ends_the_run(
    counts: dict[str, int], plan_only: bool, goes_on: bool
) -> None:
    request = {"wishes": {"strategy": "certified", "plan_only": plan_only}}
    assert has_steps.function({"step_counts": counts}, request) is goes_on


def test_estimate_counts_waves_in_turn_and_steps_together() -> None:
    settings = Settings(transfer_hand_over_ms=1_000, unload_hand_over_ms=4_000, in_flight_steps=2)
    kinds = [(0, "transfer"), (1, "transfer"), (1, "transfer"), (1, "transfer"), (2, "split")]
    steps = [replace(small_plan.stored().steps[0], wave=wave, kind=kind) for wave, kind in kinds]
    assert estimate_seconds(steps, settings) == 1 + 1.5 + 4
