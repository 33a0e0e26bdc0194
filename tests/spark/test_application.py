"""The Spark application of a command: what executors get from it, and that it never keeps an error from the user."""

from __future__ import annotations

import subprocess
import sys
import threading
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from evenkeel.model.errors import UnavailableError
from evenkeel_spark import application
from evenkeel_spark.application import SparkApplication
from support.waiting import scaled


def open_fake(monkeypatch: pytest.MonkeyPatch, shipped: list[Path]) -> None:
    context = SimpleNamespace(addPyFile=lambda path: shipped.append(Path(path)))
    session: Any = SimpleNamespace(sparkContext=context, stop=lambda: None)
    monkeypatch.setattr("evenkeel_spark.session.open_session", lambda name, master, log: session)


def test_executors_of_another_machine_get_the_packages_while_the_session_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shipped: list[Path] = []
    open_fake(monkeypatch, shipped)
    with SparkApplication("any", "spark://elsewhere:7077") as spark:
        spark()
        (packages,) = shipped
        names = zipfile.ZipFile(packages).namelist()
        assert {"evenkeel/gates/rules.py", "evenkeel_spark/spark_loads.py"} <= set(names)
    assert not packages.exists()


def test_executors_of_this_process_get_none(monkeypatch: pytest.MonkeyPatch) -> None:
    shipped: list[Path] = []
    open_fake(monkeypatch, shipped)
    with SparkApplication("any", "local[2]") as spark:
        spark()
    assert shipped == []


@pytest.mark.timeout(60)
def test_start_that_hangs_does_not_outlast_the_deadline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    is_over = threading.Event()
    monkeypatch.setattr("evenkeel_spark.session.open_session", lambda *_: is_over.wait())
    monkeypatch.setattr(application, "STOP_GRACE_S", 0.1)
    try:
        with (
            pytest.raises(UnavailableError, match="planning took longer than 0.1 s"),
            SparkApplication("any", "local[1]") as spark,
        ):
            spark.run(spark, tmp_path / "plan.log", deadline_s=0.1)
    finally:
        is_over.set()


def test_spark_is_imported_before_anything_starts_in_the_background() -> None:
    program = """
import sys, threading
started = []
threading.Thread.start = lambda thread: started.append("SQLContext" in dir(sys.modules.get("pyspark.sql")))
from evenkeel_spark.application import SparkApplication
SparkApplication("test", "local[1]").start()
assert started == [True], started
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=scaled(120.0))
