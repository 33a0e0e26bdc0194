"""What the shedders of the modular manager look at: brokers with their bundles, and each bundle's recent traffic."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar.broker_load import ResourceUsages, weighted_usage
from evenkeel.pulsar.namespaces import is_pinned, namespace_of

Unloads = dict[str, tuple[str, ...]]
"""Bundles to unload by their owner, in the order in which they were chosen."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """Messages and bytes per second, in and out together."""

    msg_rate: float
    throughput: float


@dataclass(frozen=True, slots=True)
class ModularBroker:
    """A broker's last report."""

    usages: ResourceUsages
    bundles: frozenset[str]
    traffic: Traffic


@dataclass(frozen=True, slots=True)
class ModularCluster:
    """The leader's view; bundles without recent traffic data cannot be chosen."""

    brokers: Mapping[str, ModularBroker]
    bundles: Mapping[str, Traffic]
    recently_unloaded: frozenset[str] = frozenset()

    def usages(self, settings: PulsarSettings) -> dict[str, float]:
        """Each broker's weighted usage."""
        return {name: weighted_usage(broker.usages, settings) for name, broker in self.brokers.items()}

    def rank_bundles(self, broker: str, value: Callable[[Traffic], float]) -> list[tuple[str, float]]:
        """The bundles that a broker may shed with their value, largest first and equal ones by name."""
        known = sorted(self.brokers[broker].bundles & self.bundles.keys() - self.recently_unloaded)
        movable = [(name, value(self.bundles[name])) for name in known if not is_pinned(namespace_of(name))]
        return sorted(movable, key=lambda entry: -entry[1])


def msg_rate(traffic: Traffic) -> float:
    return traffic.msg_rate


def throughput(traffic: Traffic) -> float:
    return traffic.throughput


def take_largest(ranked: Iterable[tuple[str, float]], wanted: float) -> tuple[str, ...]:
    """Bundles from the largest down until they carry what is wanted together; at least one, if there is any."""
    taken: list[str] = []
    carried = 0.0
    for name, value in ranked:
        if taken and not carried < wanted:
            break
        taken.append(name)
        carried += value
    return tuple(taken)
