"""The load of a snapshot's bundles as it is now, without Spark: for plans of a few steps, which need no history.

The figures are those of the Spark transforms `rates_now` and `planning_loads`, so that the gate finds the same load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np

from evenkeel.model.load import MILLI, Resource, limit_units
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle
from evenkeel.planning.arrays import Ints
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.load import share_cpu


def loads_now(bundles: Sequence[Bundle], brokers: Sequence[Broker], settings: Settings) -> BundleColumns:
    """Every bundle with the load of now; all bundles of a broker must be there, for they share its cpu."""
    place = {broker.broker_id: row for row, broker in enumerate(brokers)}
    owner = np.array([place.get(bundle.owner or "", -1) for bundle in bundles], dtype=np.int64)
    msg_rate = _whole((b.msg_rate_in_per_s + b.msg_rate_out_per_s) * MILLI for b in bundles)
    throughput_in = _whole(b.throughput_in_bytes_per_s for b in bundles)
    throughput_out = _whole(b.throughput_out_bytes_per_s for b in bundles)
    if settings.bandwidth_model == "scaled":
        measured_in = [limit_units(Resource.BANDWIDTH_IN, b.bandwidth_in_usage_kbps) for b in brokers]
        measured_out = [limit_units(Resource.BANDWIDTH_OUT, b.bandwidth_out_usage_kbps) for b in brokers]
        throughput_in = _scaled(throughput_in, owner, measured_in)
        throughput_out = _scaled(throughput_out, owner, measured_out)
    return BundleColumns(
        bundle=np.array([b.bundle for b in bundles], dtype=object),
        namespace=np.array([b.namespace for b in bundles], dtype=object),
        owner=np.array([b.owner for b in bundles], dtype=object),
        version_id=np.array([b.version_id for b in bundles], dtype=object),
        topics=np.array([b.topics for b in bundles], dtype=np.int64),
        sessions=np.array([b.producers + b.consumers for b in bundles], dtype=np.int64),
        msg_rate_millis=msg_rate,
        throughput_in=throughput_in,
        throughput_out=throughput_out,
        cpu_millipercent=share_cpu(msg_rate, owner, [b.cpu_usage_percent for b in brokers]),
        state=np.array([b.state for b in bundles], dtype=object),
    )


def _whole(figures: Iterable[float]) -> Ints:
    """The nearest integers, halves upwards; what is not a number from 0 counts as nothing."""
    return np.array([math.floor(f + 0.5) if math.isfinite(f) and f >= 0 else 0 for f in figures], dtype=np.int64)


def _scaled(throughput: Ints, owner: Ints, measured: Sequence[int]) -> Ints:
    """Throughputs with their parts of the measured traffic that no bundle explains."""
    totals = np.zeros(len(measured), dtype=np.int64)
    np.add.at(totals, owner[owner >= 0], throughput[owner >= 0])
    scaled = throughput.tolist()
    for row, broker in enumerate(owner.tolist()):
        if broker >= 0 and 0 < (total := int(totals[broker])) < measured[broker]:
            # Plain integers: the product of two rates in bytes outgrows 64 bits.
            scaled[row] = (2 * measured[broker] * scaled[row] + total) // (2 * total)
    return np.array(scaled, dtype=np.int64)
