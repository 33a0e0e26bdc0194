"""OverloadShedder: relieve brokers above the overload line, whatever the others carry."""

from __future__ import annotations

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar.modular_cluster import ModularCluster, Unloads, take_largest, throughput

# A relieved broker should end a little below the line, not on it.
MARGIN = 0.05


def shed_overload(cluster: ModularCluster, settings: PulsarSettings) -> Unloads:
    """Choose the bundles to unload from every broker at or above the overload line."""
    line = settings.broker_overloaded_threshold_percentage / 100
    unloads: Unloads = {}
    for name, usage in cluster.usages(settings).items():
        broker = cluster.brokers[name]
        if usage < line or len(broker.bundles) <= 1:
            continue
        wanted = broker.traffic.throughput * (usage - line + MARGIN)
        chosen = take_largest(cluster.rank_bundles(name, throughput), wanted)
        if chosen:
            unloads[name] = chosen
    return unloads
