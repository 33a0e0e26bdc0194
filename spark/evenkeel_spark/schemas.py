"""Spark schemas of Evenkeel's tables, made from the one declaration that each table has."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from evenkeel.model.tables import columns_of

_SPARK_TYPES: Mapping[type, DataType] = {
    str: StringType(),
    int: LongType(),
    float: DoubleType(),
    bool: BooleanType(),
    datetime: TimestampType(),
}


def spark_schema(table: type) -> StructType:
    """The Spark schema of a table's dataclass, each field with its comment."""
    return StructType(
        [StructField(c.name, _SPARK_TYPES[c.type], c.nullable, {"comment": c.comment}) for c in columns_of(table)]
    )


def select_table(frame: DataFrame, table: type) -> DataFrame:
    """Exactly the columns of a table, in its order and types, with its comments: the contract that ends a transform."""
    fields = spark_schema(table).fields
    return frame.select(*(F.col(f.name).cast(f.dataType).alias(f.name, metadata=f.metadata) for f in fields))
