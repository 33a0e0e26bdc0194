"""The few largest bundles that a broker of the extensible manager reports to the leader."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar.namespaces import is_system, namespace_of

# Loads are compared in these steps, so that noise does not reorder a report.
THROUGHPUT_STEP = 100_000.0
MSG_RATE_STEP = 100.0
TOPICS_AND_SESSIONS_STEP = 500
CACHE_SIZE_STEP = 100_000


@dataclass(frozen=True, slots=True)
class BundleStats:
    """What a broker measures of a bundle; rates are per second, throughputs in bytes per second."""

    msg_rate_in: float = 0.0
    msg_rate_out: float = 0.0
    throughput_in: float = 0.0
    throughput_out: float = 0.0
    topics: int = 0
    producers: int = 0
    consumers: int = 0
    cache_size: int = 0

    @property
    def msg_rate(self) -> float:
        return self.msg_rate_in + self.msg_rate_out

    @property
    def throughput(self) -> float:
        return self.throughput_in + self.throughput_out

    @property
    def sessions(self) -> int:
        return self.consumers + self.producers


def find_top_bundles(
    stats: Mapping[str, BundleStats], k: int, has_policies: Callable[[str], bool], settings: PulsarSettings
) -> list[str]:
    """The k largest bundles in Pulsar's order, the smallest of them first; equal ones by name.

    `has_policies` says whether a namespace has an isolation policy or an anti-affinity group: bundles of such a
    namespace are reported only where the settings let Pulsar shed them.
    """

    def is_reported(bundle: str) -> bool:
        namespace = namespace_of(bundle)
        if stats[bundle].throughput == 0 or is_system(namespace):
            return False
        if namespace in settings.shedding_excluded_namespaces:
            return False
        return settings.shedding_bundles_with_policies_enabled or not has_policies(namespace)

    ranked = sorted(filter(is_reported, sorted(stats)), key=lambda bundle: rank(stats[bundle]), reverse=True)
    return ranked[: max(0, k)][::-1]


def rank(stats: BundleStats) -> tuple[int, ...]:
    """What Pulsar compares to tell which bundle is larger, in this order."""
    return (
        _round_half_up(stats.throughput_in / THROUGHPUT_STEP),
        _round_half_up(stats.throughput_out / THROUGHPUT_STEP),
        _round_half_up(stats.msg_rate / MSG_RATE_STEP),
        (stats.topics + stats.sessions) // TOPICS_AND_SESSIONS_STEP,
        stats.cache_size // CACHE_SIZE_STEP,
    )


def _round_half_up(value: float) -> int:
    return math.floor(value + 0.5)
