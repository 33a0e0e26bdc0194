"""`evenkeel local`: a cluster that stays until it is told to go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from support.commands import evenkeel
from support.waiting import eventually

pytestmark = pytest.mark.zookeeper


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def check_that_the_configuration_suffices(home: Path, folder: Path) -> None:
    """What `local env` prints is all that a shell needs to use the cluster."""
    line = evenkeel("local", "env", "--home", home).out
    assert line == f"export EVENKEEL_CONFIG={home / 'evenkeel.toml'}\n"
    variables = evenkeel("local", "env", "--home", home, "--json").document
    taken = evenkeel("snapshot", cwd=folder, env=variables)
    assert taken.code == 0, taken.err
    assert taken.out.endswith("next: evenkeel plan\n")
    assert (home / "lake" / "snapshots").is_dir()
    assert evenkeel("runs", "--json", cwd=folder, env=variables).document == {"runs": []}
    unknown = evenkeel("snapshot", "--cluster", "flet", cwd=folder, env=variables)
    assert (unknown.code, "did you mean fleet?" in unknown.err) == (1, True)


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_local_cluster_comes_up_is_read_and_goes_down_for_sure(tmp_path: Path, kind: str) -> None:
    home = tmp_path / "local"
    up = evenkeel("local", "up", "--home", home, "--brokers", 3, "--bundles", 24, "--load-manager", kind, "--json")
    assert up.code == 0, up.err
    try:
        again = evenkeel("local", "up", "--home", home)
        assert again.code == 1
        assert "a local cluster is already running in" in again.err
        assert evenkeel("local", "status", "--home", home, "--json").document["running"] is True
        snapshot = evenkeel(
            *("snapshot", "--zookeeper", up.document["zookeeper"], "--cluster", "fleet"),
            *("--lake", tmp_path / "lake", "--json"),
        )
        assert snapshot.document["load_manager"] == kind
        assert snapshot.document["tables"]["brokers"]["rows"] == 3
        check_that_the_configuration_suffices(home, tmp_path)
    finally:
        down = evenkeel("local", "down", "--home", home)
    assert down.code == 0, down.err
    assert eventually(lambda: not is_alive(up.document["pid"]))
    assert evenkeel("local", "status", "--home", home, "--json").document == {"running": False}
    assert evenkeel("local", "down", "--home", home).code == 1
    gone = evenkeel("local", "env", "--home", home)
    assert (gone.code, gone.out) == (1, ""), "eval gets nothing"


def test_folder_of_somebody_elses_is_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    answer = evenkeel("local", "up", "--home", tmp_path)
    assert answer.code == 1
    assert "is not empty and not of a local cluster: give another --home" in answer.err
    assert (tmp_path / "thesis.txt").read_text() == "years of work"
