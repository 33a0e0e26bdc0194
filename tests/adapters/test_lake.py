"""Reading and writing the lake's tables."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from pathlib import Path

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import MOST_DOCUMENT_BYTES, Lake, from_arrow, to_arrow, to_parquet
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.snapshot import Bundle, LoadManager
from support import small_cluster, small_plan
from support.lakes import make_random_bundles

ENDINGS = 8
READ_AND_END = (
    "import sys; from evenkeel.adapters.lake.store import Lake; Lake(sys.argv[1]).read_table('bundles.parquet')"
)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake(str(tmp_path))
    lake.put_if_absent("bundles.parquet", to_parquet(to_arrow(Bundle, make_random_bundles(6, 40, seed=1))))
    return lake


def test_rows_survive_the_way_through_parquet(lake: Lake) -> None:
    assert from_arrow(Bundle, lake.read_table("bundles.parquet"), "bundles") == make_random_bundles(6, 40, seed=1)


def test_process_that_ends_right_after_reading_ends_well(lake: Lake) -> None:
    endings = [subprocess.run([sys.executable, "-c", READ_AND_END, lake.uri], check=False) for _ in range(ENDINGS)]
    assert [ending.returncode for ending in endings] == [0] * ENDINGS


@pytest.mark.parametrize("place", range(40, 400, 24))
def test_damaged_table_is_refused_or_read_but_never_a_traceback(lake: Lake, tmp_path: Path, place: int) -> None:
    data = bytearray((tmp_path / "bundles.parquet").read_bytes())
    data[-place] ^= 0xFF
    (tmp_path / "damaged.parquet").write_bytes(data)
    with suppress(InputError):
        lake.read_table("damaged.parquet")


def test_table_cut_short_is_one_sentence(lake: Lake, tmp_path: Path) -> None:
    (tmp_path / "short.parquet").write_bytes((tmp_path / "bundles.parquet").read_bytes()[:-9])
    with pytest.raises(InputError, match="short.parquet is not Parquet .*: create the artifact again"):
        lake.read_table("short.parquet")


def test_document_nested_without_end_is_one_sentence(lake: Lake, tmp_path: Path) -> None:
    lake.put_if_absent("deep.json", b"[" * 200_000)
    with pytest.raises(InputError, match=r"deep\.json is not JSON \(it is nested too deeply\): restore the artifact"):
        lake.read_json("deep.json")


def test_the_bytes_that_were_hashed_are_the_bytes_that_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, stored = Lake(str(tmp_path)), small_plan.stored()
    PlanStore(lake).write(stored.plan, stored.steps, stored.rejections, stored.brokers)
    content = SnapshotContent("fleet", small_cluster.TAKEN_AT, LoadManager.EXTENSIBLE, small_cluster.tables())
    manifest = SnapshotStore(lake).write(content)
    read, times = Lake.read, Counter[str]()

    def count(lake: Lake, path: str, *most_bytes: int) -> bytes:
        times[path] += 1
        return read(lake, path, *most_bytes)

    monkeypatch.setattr(Lake, "read", count)
    PlanStore(lake).read_plan(stored.plan_id)
    SnapshotStore(lake).read_table(manifest, "bundles")
    assert set(times.values()) == {1}


def test_fifo_in_place_of_an_artifact_is_refused_without_waiting(tmp_path: Path) -> None:
    lake, stored = Lake(str(tmp_path)), small_plan.stored()
    PlanStore(lake).write(stored.plan, stored.steps, stored.rejections, stored.brokers)
    for name in ("plan.json", "steps.parquet"):
        file = tmp_path / "plans" / stored.plan_id / name
        kept = file.read_bytes()
        file.unlink()
        os.mkfifo(file)
        with pytest.raises(InputError, match=f"{name} is not a regular file: remove it from the lake"):
            PlanStore(lake).load(stored.plan_id)
        file.unlink()
        file.write_bytes(kept)
    assert PlanStore(lake).read_plan(stored.plan_id).plan_id == stored.plan_id


def test_artifact_larger_than_any_that_evenkeel_writes_is_refused(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    with (tmp_path / "huge.json").open("wb") as file:
        file.truncate(MOST_DOCUMENT_BYTES + 1)
    with pytest.raises(InputError, match=r"huge\.json has more than 67,108,864 bytes"):
        lake.read_json("huge.json")


def test_artifact_is_not_overwritten_by_longer_or_shorter_bytes(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    lake.put_if_absent("a", b"12")
    lake.put_if_absent("a", b"12")
    for other in (b"", b"1", b"123"):
        with pytest.raises(RefusedError, match="exists with other content"):
            lake.put_if_absent("a", other)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(RefusedError, match="exists with other content"):
        lake.put_if_absent("pipe", b"1")


def test_table_that_was_changed_is_not_given_to_spark(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path))
    content = SnapshotContent("fleet", small_cluster.TAKEN_AT, LoadManager.EXTENSIBLE, small_cluster.tables())
    snapshots, manifest = SnapshotStore(lake), SnapshotStore(lake).write(content)
    snapshots.require_intact(manifest, "bundles")
    file = tmp_path / manifest.tables["bundles"].path
    kept = file.read_bytes()
    for change in (lambda: file.write_bytes(kept + b"x"), lambda: os.mkfifo(file)):
        file.unlink()
        change()
        with pytest.raises(InputError, match="does not match its manifest|is not a regular file"):
            snapshots.require_intact(manifest, "bundles")
