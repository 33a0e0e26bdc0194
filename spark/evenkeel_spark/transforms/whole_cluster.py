"""Run a function that wants all bundles of a cluster at once: one group, one process, one answer."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from evenkeel.model.errors import EvenkeelError
from evenkeel.planning.columns import BundleColumns
from evenkeel_spark.stated_errors import decode_error, encode_error
from evenkeel_spark.transforms.bundle_columns import bundle_columns
from evenkeel_spark.transforms.pools import BUNDLE_COLUMNS

ANSWER = StructType(
    [
        StructField("answer", StringType(), True, {"comment": "the answer as JSON; null where there is an error"}),
        StructField("error", StringType(), True, {"comment": "what a user has to know, as JSON"}),
    ]
)


def on_one_executor(bundles: DataFrame, compute: Callable[[BundleColumns], Any]) -> Any:
    """The answer of a function, which is any JSON value; the bundles never reach the driver."""

    def answer(group: pa.Table) -> pa.Table:
        value = error = None
        try:
            value = json.dumps(compute(bundle_columns(group)), ensure_ascii=False, allow_nan=False)
        except EvenkeelError as stated:
            error = encode_error(stated)
        return pa.table({"answer": pa.array([value], pa.string()), "error": pa.array([error], pa.string())})

    whole = bundles.select(F.lit(0).alias("everything"), *BUNDLE_COLUMNS).groupBy("everything")
    for row in whole.applyInArrow(answer, ANSWER).collect():
        if row["error"] is not None:
            raise decode_error(row["error"])
        return json.loads(row["answer"])
    # Without a bundle there is no group, and nothing to be sent anywhere.
    return compute(BundleColumns(**{name: [] for name in BUNDLE_COLUMNS}))  # type: ignore[arg-type]
