"""How loaded a broker counts in Pulsar: percent usage, its weighted maximum, and the moving average of both managers.

Pulsar computes a percentage in 32-bit floating point and everything after it in 64 bit; thresholds are compared
with the result, so the rounding is kept.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from evenkeel.model.pulsar_settings import PulsarSettings


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """How much of a resource is in use; a limit of 0 or less is unknown and counts as no use at all."""

    usage: float = 0.0
    limit: float = 0.0

    @property
    def percent(self) -> float:
        if not self.limit > 0:
            return 0.0
        with np.errstate(all="ignore"):
            return float(np.float32(self.usage) / np.float32(self.limit) * np.float32(100))


@dataclass(frozen=True, slots=True)
class ResourceUsages:
    """The five resources that a broker reports."""

    cpu: ResourceUsage = field(default_factory=ResourceUsage)
    memory: ResourceUsage = field(default_factory=ResourceUsage)
    direct_memory: ResourceUsage = field(default_factory=ResourceUsage)
    bandwidth_in: ResourceUsage = field(default_factory=ResourceUsage)
    bandwidth_out: ResourceUsage = field(default_factory=ResourceUsage)


def weighted_usage(usages: ResourceUsages, settings: PulsarSettings) -> float:
    """The weighted usage that the modular manager compares, 1 being full; heap memory does not count."""
    return _largest(_weighted_percents(usages, settings)) / 100


def weighted_usage_with_heap(usages: ResourceUsages, settings: PulsarSettings) -> float:
    """The weighted usage that the extensible manager averages: as the modular one, and heap memory counts."""
    heap = usages.memory.percent * settings.memory_resource_weight
    return _largest([*_weighted_percents(usages, settings), heap]) / 100


def highest_usage(usages: ResourceUsages) -> float:
    """The usage of the fullest resource without weights, as the extensible manager reports it."""
    measured = (usages.cpu, usages.direct_memory, usages.bandwidth_in, usages.bandwidth_out)
    return _largest(each.percent for each in measured) / 100


def smooth(history: float | None, current: float, share_of_history: float) -> float:
    """The next value of a moving average; the first sample is taken as it is."""
    return current if history is None else history * share_of_history + (1 - share_of_history) * current


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


def _weighted_percents(usages: ResourceUsages, settings: PulsarSettings) -> list[float]:
    return [
        usages.cpu.percent * settings.cpu_resource_weight,
        usages.direct_memory.percent * settings.direct_memory_resource_weight,
        usages.bandwidth_in.percent * settings.bandwidth_in_resource_weight,
        usages.bandwidth_out.percent * settings.bandwidth_out_resource_weight,
    ]


def _largest(values: Iterable[float]) -> float:
    """The largest value that is a number."""
    largest = float("-inf")
    for value in values:
        if value > largest:
            largest = value
    return largest
