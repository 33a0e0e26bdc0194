"""Which namespaces Pulsar pins to their place; the column form of `evenkeel.model.bundles.is_system_namespace`."""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F


def is_system(namespace: Column) -> Column:
    """Whether a namespace is a heartbeat, an SLA monitor or pulsar/system, and so is never planned."""
    tenant = F.substring_index(namespace, "/", 1)
    is_heartbeat = (tenant == "pulsar") & namespace.contains(":")
    is_sla_monitor = tenant == "sla-monitor"
    is_pulsar_system = namespace == "pulsar/system"
    return is_heartbeat | is_sla_monitor | is_pulsar_system
