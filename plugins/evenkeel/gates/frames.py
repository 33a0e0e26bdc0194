"""What the gates judge: the tables of a snapshot as Spark frames, and a plan with its tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol

from evenkeel.model.plan import BrokerBalance, Plan, Rejection, Step
from evenkeel.model.tables import columns_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenkeel_spark.transforms.planned_rates import LoadTables


@dataclass(frozen=True, slots=True)
class SnapshotFrames:
    """The four tables of a snapshot, and the load profile that a plan names, if it names one."""

    brokers: DataFrame
    bundles: DataFrame
    topics: DataFrame
    policies: DataFrame
    profile: LoadTables | None = None


class JudgedPlan(Protocol):
    """A plan with its tables, however it was stored."""

    @property
    def plan(self) -> Plan: ...

    @property
    def plan_id(self) -> str: ...

    @property
    def steps(self) -> Sequence[Step]: ...

    @property
    def rejections(self) -> Sequence[Rejection]: ...

    @property
    def brokers(self) -> Sequence[BrokerBalance]: ...


def frame_of(spark: SparkSession, table: type, rows: Iterable[Any]) -> DataFrame:
    """Rows of a table's dataclass as a Spark frame.

    By way of Arrow, which makes a local relation: Spark answers a question about it on the driver, without a job,
    unless the question needs a shuffle. Most rules of a plan are such questions, and most answers are empty.
    """
    import pyarrow as pa

    columns = columns_of(table)
    values = list(zip(*map(astuple, rows), strict=True)) or [()] * len(columns)
    types = {
        str: pa.string(),
        int: pa.int64(),
        float: pa.float64(),
        bool: pa.bool_(),
        datetime: pa.timestamp("us", "UTC"),
    }
    schema = pa.schema([pa.field(column.name, types[column.type]) for column in columns])
    arrays = [pa.array(cells, field.type) for cells, field in zip(values, schema, strict=True)]
    return spark.createDataFrame(pa.Table.from_arrays(arrays, schema=schema))


def local_copy(spark: SparkSession, frame: DataFrame) -> DataFrame:
    """A small frame, computed once and held on the driver."""
    return spark.createDataFrame(frame.toArrow())


def rows_of(table: type, frame: DataFrame) -> list[Any]:
    """The rows of a small Spark frame as values of a table's dataclass."""
    names = [column.name for column in columns_of(table)]
    found = frame.select(*names).toArrow()
    return [table(*values) for values in zip(*(found[name].to_pylist() for name in names), strict=True)]
