"""UniformLoadShedder: move part of the difference between the busiest and the idlest broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar.modular_cluster import ModularCluster, Traffic, Unloads, msg_rate, throughput

UNLIMITED = -1
# Budgets are Java integers: they stop here, and so does the search for the idlest broker.
LARGEST_INT = 2**31 - 1
SMALLEST_DIFFERENCE = 1e-6


@dataclass(frozen=True, slots=True)
class _Extremes:
    """The busiest broker by one measure, and what it and the idlest one carry."""

    busiest: str | None
    most: float
    least: float

    def budget(self, share: float) -> int:
        return _to_int((self.most - self.least) * share)


def shed_uniformly(cluster: ModularCluster, settings: PulsarSettings) -> Unloads:
    """Choose the bundles to unload from the busiest broker; message rate is looked at before throughput."""
    rates = _find_extremes(cluster, msg_rate)
    bytes_ = _find_extremes(cluster, throughput)
    rate_limit = settings.msg_rate_difference_shedder_threshold
    bytes_limit = settings.msg_throughput_multiplier_difference_shedder_threshold
    if rate_limit > 0 and (rates.most - rates.least) * 100 / rates.least > rate_limit:
        return _shed(cluster, rates, msg_rate, settings.min_unload_message, settings)
    if bytes_limit > 0 and bytes_.most / bytes_.least > bytes_limit:
        return _shed(cluster, bytes_, throughput, settings.min_unload_message_throughput, settings)
    return {}


def _find_extremes(cluster: ModularCluster, value: Callable[[Traffic], float]) -> _Extremes:
    busiest, most, least = None, -1.0, float(LARGEST_INT)
    for name, broker in cluster.brokers.items():
        carried = value(broker.traffic)
        if carried > most:
            busiest, most = name, carried
        least = min(least, carried)
    # An idle broker counts as 1, so that it can be divided by.
    return _Extremes(busiest, most, 1.0 if abs(least) <= SMALLEST_DIFFERENCE else least)


def _shed(
    cluster: ModularCluster,
    extremes: _Extremes,
    value: Callable[[Traffic], float],
    smallest_budget: int,
    settings: PulsarSettings,
) -> Unloads:
    name = extremes.busiest
    budget = extremes.budget(settings.max_unload_percentage)
    if name is None or len(cluster.brokers[name].bundles) <= 1 or budget < smallest_budget:
        return {}
    most_bundles = settings.max_unload_bundle_num_per_shedding
    chosen: list[str] = []
    for bundle, carried in cluster.rank_bundles(name, value):
        if most_bundles != UNLIMITED and len(chosen) >= most_bundles:
            break
        if carried <= budget:
            budget -= _to_int(carried)
            chosen.append(bundle)
    return {name: tuple(chosen)} if chosen else {}


def _to_int(value: float) -> int:
    """The integer part, held within Java's range."""
    return int(max(-LARGEST_INT - 1, min(LARGEST_INT, value)))
