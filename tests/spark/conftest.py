"""One Spark session for all tests of this room, and a fresh lake for each."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel.adapters.lake import Lake
from evenkeel_spark.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on two cores of this machine."""
    session = open_session("evenkeel tests", master="local[2]")
    yield session
    session.stop()


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake; its name needs escaping, as users' folders do."""
    return Lake(str(tmp_path / "a lake [1]"))
