"""`evenkeel local up --pulsar`: real brokers that stay until they are told to go."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.local.stack import REAL_NAMESPACE
from support.commands import evenkeel
from support.real_scene import PROJECT

START_DEADLINE_S = 600.0
pytestmark = [pytest.mark.pulsar, pytest.mark.timeout(1_200)]


def test_real_brokers_come_up_are_read_and_go_down(tmp_path: Path) -> None:
    home = tmp_path / "local"
    wishes = ("--pulsar", "--brokers", 2, "--bundles", 4, "--load-manager", "extensible-system-topic")
    # Started in the project, so that the jars are those of the other tests.
    up = evenkeel("local", "up", "--home", home, *wishes, "--json", cwd=PROJECT, deadline_s=START_DEADLINE_S)
    assert up.code == 0, up.err
    try:
        assert up.document["service_url"].startswith("pulsar://127.0.0.1:")
        assert evenkeel("local", "status", "--home", home, "--json").document["running"] is True
        snapshot = evenkeel(
            *("snapshot", "--zookeeper", up.document["zookeeper"], "--cluster", up.document["cluster"]),
            *("--lake", tmp_path / "lake", "--json"),
        )
        assert snapshot.code == 0, snapshot.err
        assert snapshot.document["load_manager"] == "extensible-system-topic"
        assert snapshot.document["tables"]["brokers"]["rows"] == 2
        assert up.document["namespace"] == REAL_NAMESPACE
    finally:
        down = evenkeel("local", "down", "--home", home)
    assert down.code == 0, down.err
    assert evenkeel("local", "status", "--home", home, "--json").document == {"running": False}


def test_kind_that_only_real_brokers_have_is_refused_without_them(tmp_path: Path) -> None:
    answer = evenkeel("local", "up", "--home", tmp_path / "local", "--load-manager", "extensible-system-topic")
    assert answer.code == 1
    assert "add --pulsar for real ones" in answer.err
    assert not (tmp_path / "local").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--pulsar-version", "4.0.7"), "simulated brokers have no version to choose"),
        (("--pulsar", "--pulsar-version", "4.0"), "'4.0' is not a version of Pulsar"),
        (("--pulsar", "--pulsar-version", "../../4.0.7"), "is not a version of Pulsar"),
        (("--pulsar", "--pulsar-version", "2.10.4"), "Evenkeel does not support Pulsar 2.10.4"),
        (("--pulsar", "--pulsar-version", "3.0.7"), "Pulsar 3.0.7 has no metadata-store table view"),
    ],
)
def test_version_that_cannot_run_is_refused(tmp_path: Path, words: tuple[str, ...], sentence: str) -> None:
    answer = evenkeel("local", "up", "--home", tmp_path / "local", *words)
    assert answer.code == 1
    assert sentence in answer.err
    assert not (tmp_path / "local").exists()
