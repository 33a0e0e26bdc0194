"""Which of the three kinds a cluster is, according to its brokers, who must all agree (docs/architecture.md)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.cluster.load_reports import DEFAULT_STATS_PERIOD_S
from evenkeel.adapters.cluster.registrations import MODULAR_CLASS, Registration
from evenkeel.adapters.cluster.runtime_configuration import read_configurations, require_cluster_name
from evenkeel.adapters.cluster.source import ClusterSource
from evenkeel.model.errors import InputError
from evenkeel.model.pulsar_versions import require_metadata_store_view, require_supported
from evenkeel.model.snapshot import LoadManager

_MANAGER_PACKAGE = "org.apache.pulsar.broker.loadbalance"
_VIEW_PACKAGE = f"{_MANAGER_PACKAGE}.extensions.channel"
EXTENSIBLE_CLASS = f"{_MANAGER_PACKAGE}.extensions.ExtensibleLoadManagerImpl"
SYSTEM_TOPIC_VIEW_CLASS = f"{_VIEW_PACKAGE}.ServiceUnitStateTableViewImpl"
VIEWS: Mapping[str, LoadManager] = {
    f"{_VIEW_PACKAGE}.ServiceUnitStateMetadataStoreTableViewImpl": LoadManager.EXTENSIBLE,
    SYSTEM_TOPIC_VIEW_CLASS: LoadManager.EXTENSIBLE_SYSTEM_TOPIC,
}
_REMEDY = "finish the change of load manager on all brokers, then take the snapshot"


@dataclass(frozen=True, slots=True)
class ClusterKind:
    """The kind, the period of the brokers' statistics, and the runtime configuration of each broker that answered."""

    load_manager: LoadManager
    stats_period_s: float = DEFAULT_STATS_PERIOD_S
    configurations: Mapping[str, JsonObject] = field(default_factory=dict)


def recognise_kind(source: ClusterSource, cluster: str, registrations: Sequence[Registration]) -> ClusterKind:
    """The kind on which all brokers agree; a mixture, an unknown class or another cluster's name is refused."""
    classes = {r.broker_id: r.load_manager_class for r in registrations}
    _require_same(classes, "load manager")
    versions = {r.broker_id: r.version for r in registrations}
    require_supported(versions)
    found = registrations[0].load_manager_class
    if found not in (MODULAR_CLASS, EXTENSIBLE_CLASS):
        raise InputError(
            f"broker {registrations[0].broker_id} uses the load manager {found}, which Evenkeel does not support",
            f"use {MODULAR_CLASS} or {EXTENSIBLE_CLASS}",
        )
    configurations = read_configurations(source.http, registrations)
    require_cluster_name(configurations, cluster)
    if found == MODULAR_CLASS:
        return ClusterKind(LoadManager.MODULAR, configurations=configurations)
    kind = _recognise_view(configurations)
    if kind.load_manager is LoadManager.EXTENSIBLE:
        require_metadata_store_view(versions)
    return kind


def _recognise_view(configurations: Mapping[str, JsonObject]) -> ClusterKind:
    views = {
        # Releases before 4.0 do not have the setting, and keep ownership in the system topic.
        broker_id: c.optional_text("loadManagerServiceUnitStateTableViewClassName") or SYSTEM_TOPIC_VIEW_CLASS
        for broker_id, c in configurations.items()
    }
    _require_same(views, "service-unit table view")
    broker_id, view = next(iter(views.items()))
    if view not in VIEWS:
        raise InputError(
            f"broker {broker_id} uses the table view {view}, which Evenkeel does not support",
            f"use one of {', '.join(VIEWS)}",
        )
    return ClusterKind(VIEWS[view], max(map(_stats_period_s, configurations.values())), configurations)


def _stats_period_s(configuration: JsonObject) -> float:
    text = configuration.optional_text("statsUpdateFrequencyInSecs") or ""
    return float(text) if text.isascii() and text.isdigit() else DEFAULT_STATS_PERIOD_S


def _require_same(classes: Mapping[str, str], what: str) -> None:
    (first, expected), *others = classes.items()
    for broker_id, found in others:
        if found != expected:
            raise InputError(
                f"the {what} is mixed: broker {first} uses {expected}, broker {broker_id} uses {found}", _REMEDY
            )
