"""Plans, runs and snapshots by id, unique prefix or `latest`; what is unknown or ambiguous is told with the nearest."""

from __future__ import annotations

import os
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.references import MOST_CANDIDATES, Candidates, resolve_reference
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.run import RunRecord, RunState
from evenkeel.model.snapshot import LoadManager, SnapshotManifest
from support.lakes import TAKEN_AT, make_bundle, write_snapshot
from support.plans import make_transfers, store_plan

CLUSTER = "lab"


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


def take_snapshot(lake: Lake, minutes: int = 0, cluster: str = CLUSTER) -> SnapshotManifest:
    bundles = [
        make_bundle("t/n/0x00000000_0x80000000", "b1:8080"),
        make_bundle("t/n/0x80000000_0xffffffff", "b2:8080"),
    ]
    return write_snapshot(lake, bundles, taken_at=TAKEN_AT + timedelta(minutes=minutes), cluster=cluster)


def make_plan(lake: Lake, written_s: int, cluster: str = CLUSTER) -> str:
    manifest = take_snapshot(lake, minutes=written_s, cluster=cluster)
    plan_id = store_plan(lake, manifest, make_transfers(lake, manifest, 1))
    file = Path(lake.uri.removeprefix("file://")) / "plans" / plan_id / "plan.json"
    os.utime(file, (written_s, written_s))
    return plan_id


def make_run(lake: Lake, run_id: str, started_at: str, cluster: str = CLUSTER) -> str:
    record = RunRecord(
        run_id=run_id,
        plan_id="ab" * 32,
        cluster=cluster,
        epoch=int(run_id.rpartition("-")[2]),
        state=RunState.DONE,
        started_at=started_at,
        ended_at=started_at,
        dry_run=False,
        results=(),
        detail="",
        library_version="1",
    )
    RunStore(lake).write(record)
    return run_id


def test_plan_is_found_by_prefix_and_as_the_latest_of_all_or_of_a_cluster(lake: Lake) -> None:
    older, newer, elsewhere = make_plan(lake, 10), make_plan(lake, 20), make_plan(lake, 30, cluster="other")
    plans = PlanStore(lake)
    assert plans.load(older[:10]).plan_id == older
    assert plans.load("latest").plan_id == elsewhere
    assert plans.load("latest", CLUSTER).plan_id == newer
    with pytest.raises(InputError, match=r"^no plans of cluster 'nobody' in file://.*: make one with `evenkeel plan`$"):
        plans.load("latest", "nobody")


def test_plan_that_was_not_committed_is_not_there(lake: Lake) -> None:
    plan_id = make_plan(lake, 10)
    lake.put_if_absent("plans/" + "0" * 64 + "/steps.parquet", b"half a plan")
    assert PlanStore(lake).resolve("latest") == plan_id
    with pytest.raises(InputError, match=f"^no plan '0000' in file://.*: the nearest is {plan_id[:12]}$"):
        PlanStore(lake).load("0000")


def test_latest_run_is_the_one_started_last_whatever_its_name(lake: Lake) -> None:
    make_run(lake, "ffffffffffff-000001", "2026-01-01T00:00:00Z")
    newest = make_run(lake, "000000000000-000002", "2026-01-02T00:00:00Z")
    elsewhere = make_run(lake, "111111111111-000001", "2026-01-03T00:00:00Z", cluster="other")
    runs = RunStore(lake)
    assert runs.load("latest").run_id == elsewhere
    assert runs.load("latest", CLUSTER).run_id == newest
    assert runs.load("0").run_id == newest


def test_ambiguous_run_is_told_with_those_it_may_mean(lake: Lake) -> None:
    first, second = (make_run(lake, f"aaaaaaaaaaaa-00000{n}", "2026-01-01T00:00:00Z") for n in (1, 2))
    make_run(lake, "bbbbbbbbbbbb-000001", "2026-01-01T00:00:00Z")
    with pytest.raises(InputError, match=f"^2 runs in .* start with 'aaaa': choose one of {first}, {second}$"):
        RunStore(lake).load("aaaa")


def test_snapshot_from_the_future_is_not_the_latest_and_is_warned_about(
    lake: Lake, caplog: pytest.LogCaptureFixture
) -> None:
    store, now = SnapshotStore(lake), datetime.now(UTC).replace(microsecond=0)
    newest, ahead = (write_snapshot(lake, [], taken_at=at, cluster=CLUSTER) for at in (now, now + timedelta(minutes=2)))
    assert store.load(CLUSTER) == newest
    assert f"snapshot {ahead.snapshot_id} of cluster {CLUSTER} is from the future and is ignored" in caplog.text
    assert store.load(CLUSTER, ahead.snapshot_id) == ahead, "by its name it can still be looked at"


def test_lake_with_nothing_but_snapshots_from_the_future_has_no_latest(lake: Lake) -> None:
    write_snapshot(lake, [], taken_at=datetime.now(UTC) + timedelta(days=1), cluster=CLUSTER)
    with pytest.raises(InputError, match="no snapshots of cluster"):
        SnapshotStore(lake).load(CLUSTER)


def test_imported_snapshot_may_have_any_time(lake: Lake) -> None:
    ahead = datetime.now(UTC).replace(microsecond=0) + timedelta(days=1)
    manifest = SnapshotStore(lake).write(SnapshotContent(CLUSTER, ahead, LoadManager.IMPORTED, {}))
    assert SnapshotStore(lake).load(CLUSTER) == manifest


def test_snapshot_is_found_by_prefix_and_as_the_latest(lake: Lake) -> None:
    older, newer = take_snapshot(lake), take_snapshot(lake, minutes=5)
    store = SnapshotStore(lake)
    assert store.load(CLUSTER) == store.load(CLUSTER, "latest") == newer
    assert store.load(CLUSTER, older.snapshot_id[:15]) == older
    day = older.snapshot_id[:8]
    with pytest.raises(InputError, match=f"^2 snapshots of cluster 'lab' in .* start with '{day}': choose one of"):
        store.load(CLUSTER, day)
    with pytest.raises(InputError, match="^no snapshots of cluster 'other' in .*: take one with `evenkeel snapshot`"):
        store.load("other", "latest")


@pytest.mark.parametrize("reference", ["", ".", "..", "../lake", "/", "x" * 5000, "\0", "ä"])
def test_reference_that_cannot_be_an_id_is_one_sentence(lake: Lake, reference: str) -> None:
    make_plan(lake, 10)
    make_run(lake, "aaaaaaaaaaaa-000001", "2026-01-01T00:00:00Z")
    with pytest.raises(InputError, match=r"^no plan .* the nearest is"):
        PlanStore(lake).load(reference)
    with pytest.raises(InputError, match=r"^no run .* the nearest is aaaaaaaaaaaa-000001$"):
        RunStore(lake).load(reference)
    with pytest.raises(InputError, match=r"^no snapshot .* the nearest is"):
        SnapshotStore(lake).load(CLUSTER, reference)


def test_mistyped_id_is_told_with_the_nearest_and_never_with_more_than_five() -> None:
    ids = [f"{number:02d}" + "c" * 62 for number in range(9)] + ["73c5cdf6" + "0" * 56]
    with pytest.raises(InputError) as told:
        resolve_reference("73c5fdc", Candidates("plan", "here", ids, lambda: None, ("", "")))
    first, *others = told.value.remedy.removeprefix("the nearest are ").split(", ")
    assert first == "73c5cdf60000"
    assert len(others) == MOST_CANDIDATES - 1


def test_candidates_are_shown_as_prefixes_that_work_as_references() -> None:
    ids = ["a" * 30 + letter + "b" * 33 for letter in "cdefghi"]
    with pytest.raises(InputError) as told:
        resolve_reference("aaa", Candidates("plan", "here", ids, lambda: None, ("", "")))
    listed = re.findall(r"\ba+[c-i]\b", told.value.remedy)
    assert [
        resolve_reference(prefix, Candidates("plan", "here", ids, lambda: None, ("", ""))) for prefix in listed
    ] == (ids[:MOST_CANDIDATES])
    assert told.value.remedy.endswith(" and 2 more")
