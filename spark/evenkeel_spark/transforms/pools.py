"""Bundles by pool: the rows that each pool's planner needs, as one group, and a group as the planner's columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel.planning.problem.columns import BundleColumns
from evenkeel_spark.cluster_loads import BUNDLE_COLUMNS
from evenkeel_spark.transforms.columns import is_system

# Columns in which few values repeat often: equal ones become one object.
_REPEATED = frozenset({"namespace", "owner", "state"})


def plannable_bundles(loads: DataFrame) -> DataFrame:
    """The bundles that may be planned at all: they have an owner, and Pulsar does not pin them to their place."""
    is_owned = F.col("owner").isNotNull()
    return loads.where(is_owned & ~is_system(F.col("namespace")))


def by_pool(bundles: DataFrame, namespace_pools: DataFrame, broker_pools: DataFrame, pools: DataFrame) -> DataFrame:
    """Each bundle under the pool of its namespace and, if that is another, under the pool of its owner.

    A pool has to know the strangers on its brokers: they are load that stays. Every pool has at least one row, so
    that one without bundles is planned too; such a row holds nulls.
    """
    concerned = F.array_distinct(F.array_compact(F.array("namespace_pool", "owner_pool")))
    placed = (
        bundles.join(F.broadcast(namespace_pools), on="namespace", how="left")
        .join(F.broadcast(broker_pools), on="owner", how="left")
        .withColumn("pool", F.explode(concerned))
        .select("pool", *BUNDLE_COLUMNS)
    )
    return pools.join(placed, on="pool", how="left").select("pool_number", "pool", *BUNDLE_COLUMNS)


def bundle_columns(group: pa.Table) -> BundleColumns:
    """The bundles of a group; rows without a bundle, which only keep an empty pool alive, are left out."""
    bundles = group.filter(pc.is_valid(group["bundle"]))
    return BundleColumns(**{name: _as_array(name, bundles[name]) for name in BUNDLE_COLUMNS})


def _as_array(name: str, column: pa.ChunkedArray) -> npt.NDArray[Any]:
    if name in _REPEATED:
        encoded = column.combine_chunks().dictionary_encode()
        values: npt.NDArray[Any] = encoded.dictionary.to_numpy(zero_copy_only=False)
        repeated: npt.NDArray[Any] = values[encoded.indices.to_numpy(zero_copy_only=False)]
        return repeated
    if column.null_count:
        # numpy would turn integers with gaps into floating point.
        return np.array(column.to_pylist(), dtype=object)
    array: npt.NDArray[Any] = column.to_numpy()
    return array
