"""Reading and writing the lake's tables."""

from __future__ import annotations

import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from evenkeel.adapters.lake import Lake, from_arrow, to_arrow, to_parquet
from evenkeel.model.errors import InputError
from evenkeel.model.snapshot import Bundle
from support.lakes import make_random_bundles

ENDINGS = 8
READ_AND_END = "import sys; from evenkeel.adapters.lake import Lake; Lake(sys.argv[1]).read_table('bundles.parquet')"


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
    with pytest.raises(InputError, match="short.parquet is not Parquet .*: make the artifact anew"):
        lake.read_table("short.parquet")


def test_document_nested_without_end_is_one_sentence(lake: Lake, tmp_path: Path) -> None:
    lake.put_if_absent("deep.json", b"[" * 200_000)
    with pytest.raises(InputError, match=r"deep\.json is not JSON \(it is nested too deeply\): restore the artifact"):
        lake.read_json("deep.json")
