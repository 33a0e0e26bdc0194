"""Rows of a group become the planner's columns as they are, in whatever chunks they come."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from evenkeel_spark.transforms.pools import bundle_columns

FIGURES = ("topics", "sessions", "msg_rate_millis", "throughput_in", "throughput_out", "cpu_millipercent")


def group(names: list[str | None], version_ids: list[int | None]) -> pa.Table:
    """One chunk a row, as rows of different partitions come."""
    rows = [
        {"pool": "b1", "bundle": name, "namespace": "t/n", "owner": "b1:8080", "state": "Owned", "version_id": version}
        | dict.fromkeys(FIGURES, place)
        for place, (name, version) in enumerate(zip(names, version_ids, strict=True))
    ]
    types: dict[str, Any] = dict.fromkeys(("pool", "bundle", "namespace", "owner", "state"), pa.string())
    schema = pa.schema([*types.items(), ("version_id", pa.int64()), *((name, pa.int64()) for name in FIGURES)])
    return pa.concat_tables([pa.Table.from_pylist([row], schema) for row in rows])


def test_columns_hold_what_the_rows_hold() -> None:
    columns = bundle_columns(group(["t/n/1", "t/n/2", "t/n/3"], [4, 5, 6]))
    assert columns.bundle.tolist() == ["t/n/1", "t/n/2", "t/n/3"]
    assert columns.version_id.tolist() == [4, 5, 6]
    assert columns.throughput_in.dtype == np.int64
    assert columns.throughput_in.tolist() == [0, 1, 2]


def test_unknown_version_stays_unknown_and_the_others_stay_whole_numbers() -> None:
    columns = bundle_columns(group(["t/n/1", "t/n/2"], [2**60 + 1, None]))
    assert columns.version_id.tolist() == [2**60 + 1, None]


def test_equal_namespaces_and_owners_are_one_object() -> None:
    columns = bundle_columns(group(["t/n/1", "t/n/2"], [1, 1]))
    assert columns.namespace[0] is columns.namespace[1]
    assert columns.owner[0] is columns.owner[1]


@pytest.mark.parametrize("names", [[None], [None, None]])
def test_row_that_only_keeps_an_empty_pool_alive_is_no_bundle(names: list[None]) -> None:
    assert len(bundle_columns(group(list(names), [None] * len(names)))) == 0
