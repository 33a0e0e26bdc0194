"""A bare PySpark program: starts a session, reads Parquet tables, and writes one of them.

`python bare_spark.py TARGET TABLE...` is the measure for `evenkeel plan`: whoever uses Spark at all pays this.
"""

from __future__ import annotations

import sys

from pyspark.sql import SparkSession


def main(target: str, tables: list[str]) -> None:
    """Read all tables, count their rows, and write the first one."""
    spark = SparkSession.builder.master("local[*]").appName("bare").getOrCreate()
    frames = [spark.read.parquet(table) for table in tables]
    for frame in frames:
        frame.count()
    frames[0].write.parquet(target)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
