"""What `evenkeel plan` refuses before Spark starts, and what it then leaves in the lake: nothing."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.gates.expected_checks import expect_of_snapshot
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from evenkeel.model.verdict import Subject
from evenkeel.stages.check import check_snapshot
from evenkeel.stages.plan import make_plan
from evenkeel_spark.application import SparkApplication
from support import small_cluster
from support.approvals import make_verdict
from support.small_cluster import TAKEN_AT


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """A lake with a snapshot, in a test in which Spark must not start."""

    def refuse_to_start(application: SparkApplication) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(SparkApplication, "start", refuse_to_start)
    lake = Lake(str(tmp_path / "lake"))
    write_snapshot(lake)
    return lake


def write_snapshot(lake: Lake, minutes_later: int = 0, **changes: Any) -> str:
    taken_at = TAKEN_AT + timedelta(minutes=minutes_later)
    content = SnapshotContent("fleet", taken_at, LoadManager.EXTENSIBLE, small_cluster.tables(), **changes)
    return SnapshotStore(lake).write(content).snapshot_id


def plan(
    lake: Lake, tmp_path: Path, snapshot: str | None = None, strategy: str = "certified", master: str = "local[1]"
) -> None:
    make_plan(lake, "fleet", snapshot, strategy, Settings(), master, tmp_path / "logs", 60.0, lambda _: None)


def files_of(tmp_path: Path) -> set[Path]:
    return {path for path in tmp_path.rglob("*") if path.is_file()}


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [({"strategy": "random"}, "there is no strategy 'random'"), ({"snapshot": "20200101T000000Z-nothing"}, "20200101")],
)
def test_unknown_names_are_refused_before_anything_starts(
    lake: Lake, tmp_path: Path, wrong: dict[str, str], sentence: str
) -> None:
    before = files_of(tmp_path)
    with pytest.raises(InputError, match=sentence):
        plan(lake, tmp_path, **wrong)
    assert files_of(tmp_path) == before


def test_snapshot_that_its_gate_blocks_is_not_planned(tmp_path: Path, lake: Lake) -> None:
    silent = write_snapshot(lake, minutes_later=1, brokers_without_report=("b07.fleet:8080",))
    with pytest.raises(RefusedError, match=r"the gate blocks snapshot .*: broker b07\.fleet:8080 has no load report"):
        plan(lake, tmp_path, silent)
    assert lake.names("requests") == []
    assert lake.names("plans") == []


def test_small_snapshot_is_judged_once_and_without_spark(lake: Lake) -> None:
    verdict = check_snapshot(lake, "fleet", None, Settings(), "a master that does not exist")
    assert verdict.passed
    snapshots = SnapshotStore(lake)
    patient = dataclasses.replace(Settings(), broker_load_data_ttl_in_seconds=99.0)
    manifest = snapshots.load("fleet")
    stored = make_verdict(expect_of_snapshot(patient), Subject.SNAPSHOT, manifest.snapshot_id)
    snapshots.write_verdict(manifest, patient, stored)
    assert check_snapshot(lake, "fleet", None, patient, "any master") == stored


def test_plan_is_submitted_after_the_application_of_the_gate_has_ended(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    happened: list[str] = []
    monkeypatch.setattr(SparkApplication, "__exit__", lambda *_: happened.append("gate ended"))
    monkeypatch.setattr("evenkeel.stages.plan.submit", lambda *_: happened.append("submitted"))
    with pytest.raises(InputError, match="has no plan yet"):
        plan(lake, tmp_path, master="spark://elsewhere:7077")
    assert happened == ["gate ended", "submitted"]
