"""The load to plan with: the current load of a snapshot's bundles, cpu shares, and the hours that a plan covers.

`loads_now` needs no Spark and serves plans of a few steps, which need no history. Its figures equal those of the Spark
transforms `rates_now` and `planning_loads`, so that the gate sees the same load.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import numpy.typing as npt

from evenkeel.model.load import MILLI, Resource, limit_units, whole
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle
from evenkeel.planning.problem.columns import BundleColumns, Floats, Ints

HOURS_A_DAY = 24
HOURS_A_WEEK = 7 * HOURS_A_DAY


def loads_now(bundles: Sequence[Bundle], brokers: Sequence[Broker], settings: Settings) -> BundleColumns:
    """The current load of every bundle. All bundles of a broker have to be given, because they share its cpu."""
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
    return np.array([whole(figure) for figure in figures], dtype=np.int64)


def _scaled(throughput: Ints, owner: Ints, measured: Sequence[int]) -> Ints:
    """Scale throughputs so that they add up to the traffic that their broker measured."""
    totals = np.zeros(len(measured), dtype=np.int64)
    np.add.at(totals, owner[owner >= 0], throughput[owner >= 0])
    scaled = throughput.tolist()
    for row, broker in enumerate(owner.tolist()):
        if broker >= 0 and 0 < (total := int(totals[broker])) < measured[broker]:
            # Plain integers, because the product of two byte rates overflows 64 bits.
            scaled[row] = (2 * measured[broker] * scaled[row] + total) // (2 * total)
    return np.array(scaled, dtype=np.int64)


def share_cpu(
    msg_rate_millis: npt.ArrayLike, owner_index: npt.ArrayLike, cpu_usage_percent: Sequence[float | None] | Floats
) -> Ints:
    """Divide each broker's measured cpu among its bundles by message rate, in thousandths of a percent, rounded.

    A negative owner index means that the bundle has no owner. The cpu of a broker without messages is not assigned,
    because nothing tells which bundle uses it.
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


def hour_of_week(moment: datetime) -> int:
    """Hours since Monday 00:00 UTC."""
    in_utc = moment.astimezone(UTC)
    return in_utc.weekday() * HOURS_A_DAY + in_utc.hour


def horizon_hours(taken_at: datetime, expires_after_s: float) -> tuple[int, ...]:
    """The hours of the week from a snapshot until its plans expire, in chronological order."""
    hour = taken_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    end = taken_at + timedelta(seconds=min(expires_after_s, HOURS_A_WEEK * 3600))
    hours: list[int] = []
    while hour < end and len(hours) < HOURS_A_WEEK:
        hours.append(hour_of_week(hour))
        hour += timedelta(hours=1)
    return tuple(hours)
