"""Clusters of the modular load manager: load reports are in the registration nodes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from evenkeel.adapters.json_documents import JsonObject, refuse
from evenkeel.adapters.load_reports import BrokerReport, Load, parse_range
from evenkeel.adapters.registrations import Registration
from evenkeel.model.bundles import BundleRange

# 2100-01-01: whatever claims to be later is no time in milliseconds.
LATEST_TIME_MS = 4_102_444_800_000
_RESOURCES = {
    "cpu": ("cpu_usage_percent", "cpu_limit_percent"),
    "memory": ("memory_usage_mib", "memory_limit_mib"),
    "directMemory": ("direct_memory_usage_mib", "direct_memory_limit_mib"),
    "bandwidthIn": ("bandwidth_in_usage_kbps", "bandwidth_in_limit_kbps"),
    "bandwidthOut": ("bandwidth_out_usage_kbps", "bandwidth_out_limit_kbps"),
}


def parse_modular_reports(registrations: Sequence[Registration]) -> dict[str, BrokerReport]:
    """The load report of every broker that has written one."""
    return {r.broker_id: _parse_report(r) for r in registrations if r.document.figure("lastUpdate", 0.0) > 0}


def _parse_report(registration: Registration) -> BrokerReport:
    document = registration.document
    updated_ms = document.figure("lastUpdate")
    if updated_ms > LATEST_TIME_MS:
        refuse(f"{document.origin}: lastUpdate = {updated_ms:.0f} is not a time in milliseconds")
    bundles: dict[str, dict[BundleRange, Load]] = {}
    for name, stats in document.object("lastStats").objects():
        namespace, _, text = name.rpartition("/")
        bundles.setdefault(namespace, {})[parse_range(text, stats.origin)] = _parse_load(stats)
    return BrokerReport(
        broker_id=registration.broker_id,
        made_at=datetime.fromtimestamp(updated_ms / 1000, UTC),
        resources=_parse_resources(document),
        bundles=bundles,
        zxid=registration.mzxid,
    )


def _parse_load(stats: JsonObject) -> Load:
    return Load(
        msg_rate_in=stats.figure("msgRateIn"),
        msg_rate_out=stats.figure("msgRateOut"),
        throughput_in=stats.figure("msgThroughputIn"),
        throughput_out=stats.figure("msgThroughputOut"),
        topics=stats.count("topics"),
        producers=stats.count("producerCount"),
        consumers=stats.count("consumerCount"),
    )


def _parse_resources(document: JsonObject) -> dict[str, float | None]:
    resources: dict[str, float | None] = {}
    for name, (usage, limit) in _RESOURCES.items():
        resource = document.object(name)
        resources[usage] = resource.figure("usage")
        known_limit = resource.number("limit")
        # Pulsar writes -1000.0 for a NIC whose speed it cannot see.
        resources[limit] = known_limit if known_limit > 0 else None
    return resources
