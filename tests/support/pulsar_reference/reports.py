"""What a broker of the extensible manager reports: its load, averaged, and its largest bundles."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.broker_load import (
    ResourceUsage,
    ResourceUsages,
    smooth,
    weighted_usage_with_heap,
)
from evenkeel.pulsar_rules.eligibility import is_system, namespace_of
from evenkeel.pulsar_rules.transfer_shedder import MSG_RATE_STEP, THROUGHPUT_STEP, TOPICS_AND_SESSIONS_STEP

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


def weighted_usage(usages: ResourceUsages, settings: PulsarSettings) -> float:
    """The weighted usage that the modular manager compares, 1 being full; heap memory does not count."""
    return weighted_usage_with_heap(dataclasses.replace(usages, memory=ResourceUsage()), settings)


def highest_usage(usages: ResourceUsages) -> float:
    """The usage of the fullest resource without weights, as the extensible manager reports it."""
    measured = (usages.cpu, usages.direct_memory, usages.bandwidth_in, usages.bandwidth_out)
    return max(each.percent for each in measured) / 100


@dataclass(frozen=True, slots=True)
class BrokerReport:
    """What a broker of the extensible manager measures at one moment."""

    usages: ResourceUsages
    throughput_in: float
    throughput_out: float


@dataclass(frozen=True, slots=True)
class BrokerLoadData:
    """What a broker of the extensible manager publishes, averaged over its reports."""

    highest_usage: float
    weighted_max_average: float
    throughput_average: float


def update_load_data(before: BrokerLoadData | None, report: BrokerReport, settings: PulsarSettings) -> BrokerLoadData:
    """Fold a report into what the broker published before; None is a broker that has published nothing yet."""
    share = settings.history_resource_percentage
    load = weighted_usage_with_heap(report.usages, settings)
    throughput = report.throughput_in + report.throughput_out
    return BrokerLoadData(
        highest_usage=highest_usage(report.usages),
        weighted_max_average=smooth(before.weighted_max_average if before else None, load, share),
        throughput_average=smooth(before.throughput_average if before else None, throughput, share),
    )
