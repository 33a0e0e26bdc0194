"""Load in integers: the driver rounds as Spark does, at every edge."""

from __future__ import annotations

import math

import pyarrow as pa
import pytest

from evenkeel.adapters.lake.store import to_arrow
from evenkeel.gates.snapshot_gate import _sum_by_owner
from evenkeel.model.load import whole
from evenkeel.model.snapshot import Bundle
from support import small_cluster

# Figure → integer, as Spark's `round` and `try_cast` give it.
EDGES = (
    (None, 0),
    (math.nan, 0),
    (math.inf, 0),
    (-1.0, 0),
    (0.49999999999999994, 0),
    (0.5, 1),
    (2.5, 3),
    (2.0**52 + 1, 2**52 + 1),
    (1e19, 0),
)


@pytest.mark.parametrize(("figure", "nearest"), EDGES)
def test_figure_becomes_the_nearest_integer(figure: float | None, nearest: int) -> None:
    assert whole(figure) == nearest


def test_figure_beyond_64_bits_counts_as_nothing_for_the_gate() -> None:
    rows = small_cluster.change(small_cluster.bundles(), "owner", small_cluster.B03, throughput_in_bytes_per_s=1e19)
    summed: pa.Table = _sum_by_owner(to_arrow(Bundle, rows))
    by_owner = dict(zip(summed["owner"].to_pylist(), summed["in_bytes_per_s"].to_pylist(), strict=True))
    assert by_owner[small_cluster.B03] == 0
