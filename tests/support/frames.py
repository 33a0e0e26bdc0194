"""Rows of a table's dataclass as a Spark frame."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from evenkeel.adapters.lake.store import to_arrow


def frame_of(spark: SparkSession, table: type, rows: Iterable[Any]) -> DataFrame:
    """The rows as a frame with the table's columns."""
    return spark.createDataFrame(to_arrow(table, list(rows)))
