"""A fresh lake for each test."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from evenkeel.adapters.lake.store import Lake


@pytest.fixture(scope="session")
def spark(spark_session: SparkSession) -> SparkSession:
    """The session of all Spark tests."""
    return spark_session


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """An empty lake; its name needs escaping, as users' folders do."""
    return Lake(str(tmp_path / "a lake [1]"))
