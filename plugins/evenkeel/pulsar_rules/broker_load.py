"""A broker's load as Pulsar computes it: percent usage, its weighted maximum, and the moving average.

Pulsar computes percentages in 32-bit floating point and everything else in 64 bits. Thresholds are compared with the
result, so the rounding is reproduced.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from evenkeel.model.pulsar_settings import PulsarSettings


@dataclass(frozen=True, slots=True)
class ResourceUsage:
    """The usage of a resource; a limit of 0 or less is unknown, and the usage then counts as 0 %."""

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


def weighted_usage_with_heap(usages: ResourceUsages, settings: PulsarSettings) -> float:
    """The weighted usage that the extensible manager averages, 1 being full; heap memory counts."""
    heap = usages.memory.percent * settings.memory_resource_weight
    return _largest([*_weighted_percents(usages, settings), heap]) / 100


def smooth(history: float | None, current: float, share_of_history: float) -> float:
    """The next value of a moving average, which starts with the first sample."""
    return current if history is None else history * share_of_history + (1 - share_of_history) * current


def _weighted_percents(usages: ResourceUsages, settings: PulsarSettings) -> list[float]:
    return [
        usages.cpu.percent * settings.cpu_resource_weight,
        usages.direct_memory.percent * settings.direct_memory_resource_weight,
        usages.bandwidth_in.percent * settings.bandwidth_in_resource_weight,
        usages.bandwidth_out.percent * settings.bandwidth_out_resource_weight,
    ]


def _largest(values: Iterable[float]) -> float:
    """The largest value that is not NaN."""
    largest = float("-inf")
    for value in values:
        if value > largest:
            largest = value
    return largest
