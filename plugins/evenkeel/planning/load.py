"""Shares a broker's measured cpu out over its bundles, in integers."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from evenkeel.model.load import MILLI
from evenkeel.planning.arrays import Floats, Ints


def share_cpu(
    msg_rate_millis: npt.ArrayLike, owner_index: npt.ArrayLike, cpu_usage_percent: Sequence[float | None] | Floats
) -> Ints:
    """Each bundle's part of its owner's cpu by message rate, in thousandths of a percent, rounded to the nearest.

    An owner index below zero means that nobody owns the bundle. The cpu of a broker without messages stays
    unassigned: nothing says which bundle uses it.
    """
    rate = np.asarray(msg_rate_millis, dtype=np.int64)
    owner = np.asarray(owner_index, dtype=np.int64)
    cpu = np.array([_millipercent(usage) for usage in cpu_usage_percent], dtype=np.int64)
    shares = np.zeros(len(rate), dtype=np.int64)
    owned = owner >= 0
    total = np.zeros(len(cpu), dtype=np.int64)
    np.add.at(total, owner[owned], rate[owned])
    shared = owned.copy()
    shared[owned] = total[owner[owned]] > 0
    whole = total[owner[shared]]
    shares[shared] = (2 * cpu[owner[shared]] * rate[shared] + whole) // (2 * whole)
    return shares


def _millipercent(usage: float | None) -> int:
    if usage is None or not math.isfinite(usage) or usage <= 0:
        return 0
    return round(usage * MILLI)
