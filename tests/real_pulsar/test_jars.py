"""Pulsar's jars: downloaded once by Maven, complete or not there at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from evenkeel.local.real_pulsar.cluster import RealCluster
from evenkeel.local.real_pulsar.configuration import ClusterShape
from evenkeel.local.real_pulsar.jars import resolve_jars
from evenkeel.model.errors import RefusedError, UnavailableError


def put_maven(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Path:
    """A Maven that does as told and counts how often it was called."""
    folder.mkdir()
    calls = folder / "calls"
    maven = folder / "mvn"
    find_folder = "for word; do case $word in -DoutputDirectory=*) out=${word#*=};; esac; done"
    maven.write_text(f'#!/bin/sh\necho "$@" >> {calls}\n{find_folder}\n{script}\n')
    maven.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return calls


def test_jars_are_downloaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = put_maven(tmp_path / "bin", monkeypatch, 'mkdir -p "$out" && touch "$out/pulsar-broker-4.2.4.jar"')
    jars = resolve_jars(tmp_path / "jars")
    assert [jar.name for jar in jars.iterdir()] == ["pulsar-broker-4.2.4.jar"]
    assert resolve_jars(tmp_path / "jars") == jars
    assert len(calls.read_text().splitlines()) == 1
    assert [folder.name for folder in (tmp_path / "jars").iterdir()] == [jars.name], "nothing half-made is left"


def test_each_version_has_jars_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = put_maven(tmp_path / "bin", monkeypatch, 'mkdir -p "$out" && touch "$out/pulsar-broker-x.jar"')
    folders = {resolve_jars(tmp_path / "jars", version) for version in ("3.0.7", "4.0.7", "4.2.4")}
    assert len(folders) == 3
    asked = [word for line in calls.read_text().splitlines() for word in line.split() if "pulsar.version" in word]
    assert asked == [f"-Dpulsar.version={version}" for version in ("3.0.7", "4.0.7", "4.2.4")]


@pytest.mark.parametrize("version", ["", "4.0", "latest", "../4.0.7", "4.0.7 -X", "4.0.7\n"])
def test_text_that_is_no_version_is_refused(tmp_path: Path, version: str) -> None:
    with pytest.raises(RefusedError, match="is not a version of Pulsar"):
        resolve_jars(tmp_path / "jars", version)
    assert not (tmp_path / "jars").exists()


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ('echo "[ERROR] no such host" && exit 1', r"could not download Pulsar's jars \(\[ERROR\] no such host\)"),
        ('mkdir -p "$out" && touch "$out/other.jar"', "downloaded no pulsar-broker jar"),
    ],
)
def test_maven_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, sentence: str
) -> None:
    put_maven(tmp_path / "bin", monkeypatch, script)
    with pytest.raises(UnavailableError, match=sentence):
        resolve_jars(tmp_path / "jars")
    assert list((tmp_path / "jars").iterdir()) == []


def test_machine_without_maven_is_told_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UnavailableError, match="Maven is needed .*: install Maven 3"):
        resolve_jars(tmp_path / "jars")


def test_more_brokers_than_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(RefusedError, match="12 real brokers do not fit"):
        RealCluster(tmp_path, ClusterShape(brokers=12))
