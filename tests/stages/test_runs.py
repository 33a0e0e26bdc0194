"""Listing runs: a lake that is not there is not an empty one."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import InputError
from evenkeel.stages.runs import list_runs


def test_lake_that_does_not_exist_is_refused_and_not_created(tmp_path: Path) -> None:
    place = tmp_path / "lakke"
    with pytest.raises(InputError, match=r"^the lake file://.*/lakke does not exist: check --lake"):
        list_runs(Lake(str(place)), None, None)
    assert not place.exists()


def test_lake_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lake").write_text("")
    with pytest.raises(InputError, match="does not exist"):
        list_runs(Lake(str(tmp_path / "lake")), None, None)


def test_lake_without_runs_has_none(tmp_path: Path) -> None:
    assert list_runs(Lake(str(tmp_path)), None, None) == []
