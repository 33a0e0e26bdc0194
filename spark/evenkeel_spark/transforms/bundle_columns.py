"""The rows of a group as the planner's columns, without a Python object for each value where there need be none."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.planning.columns import BundleColumns
from evenkeel_spark.transforms.pools import BUNDLE_COLUMNS

# Columns in which few values repeat often: equal ones become one object.
_REPEATED = frozenset({"namespace", "owner", "state"})


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
