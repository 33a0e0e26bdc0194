"""Load in integer units, so that sums are the same in any order and on any number of machines.

Rates are whole bytes per second or thousandths of a message per second, CPU is thousandths of a percent of a core.
Limits use the same units. An unknown limit is 0: planning ignores that resource of that broker, not the broker.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from evenkeel.model.errors import InputError
from evenkeel.model.tables import column

BYTES_PER_KILOBIT = 125
MILLI = 1000

# A message that costs as much cpu as the average one.
AVERAGE_WEIGHT_MILLIS = 1000
HIGHEST_WEIGHT_MILLIS = 1_000_000
# What a column of integers holds.
HIGHEST_FIGURE = 2**63 - 1


class Resource(StrEnum):
    """What the planner balances, in the order of the columns of its arrays."""

    CPU = "cpu"
    BANDWIDTH_IN = "bandwidth_in"
    BANDWIDTH_OUT = "bandwidth_out"


RESOURCES: tuple[Resource, ...] = tuple(Resource)


@dataclass(frozen=True, slots=True)
class BundleProfile:
    """A row of the table `bundle_profiles`: a bundle now, and its load over time in integer units."""

    namespace: str = column("namespace with its tenant")
    bundle: str = column("Pulsar's name of the bundle")
    owner: str | None = column("broker id of the owner now; null for an idle bundle")
    state: str = column("service-unit state now")
    version_id: int | None = column("logical version of the service-unit record now")
    topics: int = column("loaded topics now")
    sessions: int = column("producers and consumers now")
    samples: int = column("snapshots of the history that hold the bundle")
    msg_rate_now_millis: int = column("messages in and out now, thousandths per second")
    msg_rate_p50_millis: int = column("median of messages in and out, thousandths per second")
    msg_rate_p95_millis: int = column("95th percentile of messages in and out, thousandths per second")
    msg_rate_peak_millis: int = column("peak of messages in and out, thousandths per second")
    throughput_in_now_bytes_per_s: int = column("bytes per second in, now")
    throughput_in_p50_bytes_per_s: int = column("bytes per second in, median")
    throughput_in_p95_bytes_per_s: int = column("bytes per second in, 95th percentile")
    throughput_in_peak_bytes_per_s: int = column("bytes per second in, peak")
    throughput_out_now_bytes_per_s: int = column("bytes per second out, now")
    throughput_out_p50_bytes_per_s: int = column("bytes per second out, median")
    throughput_out_p95_bytes_per_s: int = column("bytes per second out, 95th percentile")
    throughput_out_peak_bytes_per_s: int = column("bytes per second out, peak")
    cpu_weight_millis: int = column(
        "cpu of a message against the average one, thousandths; 1000 where nothing was learnt", AVERAGE_WEIGHT_MILLIS
    )


@dataclass(frozen=True, slots=True)
class HourlyPeak:
    """A row of the table `hourly_peaks`: a bundle's peak in one hour of the week."""

    bundle: str = column("Pulsar's name of the bundle")
    hour_of_week: int = column("hours since Monday 00:00 UTC, 0 to 167")
    samples: int = column("snapshots that fell into that hour")
    msg_rate_peak_millis: int = column("peak of messages in and out, thousandths per second")
    throughput_in_peak_bytes_per_s: int = column("peak of bytes per second in")
    throughput_out_peak_bytes_per_s: int = column("peak of bytes per second out")


@dataclass(frozen=True, slots=True)
class CpuCalibration:
    """A row of the table `cpu_calibration`: the CPU cost of messages, learned from realised moves."""

    key: str = column("namespace with its tenant, or a bundle, whose own row goes before that of its namespace")
    weight_millis: int = column("cpu of a message against the average one of its broker, thousandths")
    samples: int = column("brokers and hours that the weight was learnt from")
    updated_at: datetime = column("when the weight was last learnt")

    def __post_init__(self) -> None:
        if not 0 < self.weight_millis <= HIGHEST_WEIGHT_MILLIS:
            raise InputError(
                f"the cpu weight {self.weight_millis} of {self.key} is not between 1 and {HIGHEST_WEIGHT_MILLIS}",
                "give it in thousandths of the average message's cost",
            )


@dataclass(frozen=True, slots=True)
class HandOverTime:
    """A row of the table `hand_over_times`: how long a moved bundle is without an owner, learnt from runs."""

    kind: str = column("transfer or unload")
    hand_over_ms: int = column("expected time from the disconnect until the new owner serves, milliseconds")
    samples: int = column("settled steps that the time was learnt from")
    updated_at: datetime = column("when the time was last learnt")

    def __post_init__(self) -> None:
        if self.hand_over_ms < 1:
            raise InputError(
                f"the hand-over time {self.hand_over_ms} ms of a {self.kind} is not positive", "learn again"
            )


@dataclass(frozen=True, slots=True)
class SplitCandidate:
    """A row of the table `split_candidates`: a bundle that met a condition of PIP-192 long enough, and its best cut.

    The planner adds bundles that may be too big for any broker; they have no hits and rank 0.
    """

    namespace: str = column("namespace with its tenant")
    bundle: str = column("Pulsar's name of the bundle")
    reason: str = column("first condition met: Topics, Sessions, MsgRate or Bandwidth")
    hits: int = column("snapshots in a row, the last included, in which a condition was met")
    topics: int = column("loaded topics now")
    sessions: int = column("producers and consumers now")
    msg_rate_per_s: float = column("messages in and out now, per second")
    throughput_bytes_per_s: float = column("bytes in and out now, per second")
    rank: int = column("place among the candidates of this cycle, from 1; ties by name")
    namespace_bundles: int = column("bundles that the namespace has now")
    boundary: int = column("hash at which the upper child begins")
    boundary_by: str = column("what the boundary halves: topic load, topic count, or only the range")
    lower_topics_ppb: int = column("part of the topics that the lower child gets, parts per billion")
    lower_sessions_ppb: int = column("part of the sessions that the lower child gets, parts per billion")
    lower_msg_rate_ppb: int = column("part of the messages that the lower child gets, parts per billion")
    lower_throughput_in_ppb: int = column("part of the bytes in that the lower child gets, parts per billion")
    lower_throughput_out_ppb: int = column("part of the bytes out that the lower child gets, parts per billion")


def whole(figure: float | None) -> int:
    """The nearest integer, halves upwards; 0 for an unknown, negative or not finite figure, or one beyond 64 bits.

    The column form for Spark is `evenkeel_spark.transforms.columns.whole`.
    """
    if figure is None or not 0 <= figure <= HIGHEST_FIGURE:
        return 0
    below = math.floor(figure)
    # Adding a half before rounding down would itself round, close below a half and for large figures.
    return below + (figure - below >= 0.5)


def limit_units(resource: Resource, limit: float | None) -> int:
    """A broker's limit (percent of cores, or kilobit per second) in the resource's integer unit; 0 is unknown."""
    if limit is None or not math.isfinite(limit) or limit <= 0:
        return 0
    factor = MILLI if resource is Resource.CPU else BYTES_PER_KILOBIT
    return round(limit * factor)
