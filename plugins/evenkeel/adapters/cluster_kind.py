"""Which kind of cluster this is, told by its brokers; they must all tell the same (DESIGN 3)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenkeel.adapters.cluster_source import ClusterSource
from evenkeel.adapters.json_documents import JsonObject
from evenkeel.adapters.load_reports import DEFAULT_STATS_PERIOD_S
from evenkeel.adapters.registrations import Registration
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.model.snapshot import LoadManager

RUNTIME_PATH = "/admin/v2/brokers/configuration/runtime"
_MANAGER_PACKAGE = "org.apache.pulsar.broker.loadbalance"
_VIEW_PACKAGE = f"{_MANAGER_PACKAGE}.extensions.channel"
MODULAR_CLASS = f"{_MANAGER_PACKAGE}.impl.ModularLoadManagerImpl"
EXTENSIBLE_CLASS = f"{_MANAGER_PACKAGE}.extensions.ExtensibleLoadManagerImpl"
SYSTEM_TOPIC_VIEW_CLASS = f"{_VIEW_PACKAGE}.ServiceUnitStateTableViewImpl"
VIEWS: Mapping[str, LoadManager] = {
    f"{_VIEW_PACKAGE}.ServiceUnitStateMetadataStoreTableViewImpl": LoadManager.EXTENSIBLE,
    SYSTEM_TOPIC_VIEW_CLASS: LoadManager.EXTENSIBLE_SYSTEM_TOPIC,
}
_REMEDY = "finish the change of load manager on all brokers, then take the snapshot"


@dataclass(frozen=True, slots=True)
class ClusterKind:
    """The kind, and how often brokers count anew what their statistics then repeat."""

    load_manager: LoadManager
    stats_period_s: float = DEFAULT_STATS_PERIOD_S


def recognise_kind(source: ClusterSource, cluster: str, registrations: Sequence[Registration]) -> ClusterKind:
    """The one kind that every broker tells; a mixture or an unknown class is refused by name."""
    classes = {r.broker_id: r.load_manager_class for r in registrations}
    _require_same(classes, "load manager")
    found = registrations[0].load_manager_class
    if found == MODULAR_CLASS:
        return ClusterKind(LoadManager.MODULAR)
    if found == EXTENSIBLE_CLASS:
        return _recognise_view(source, cluster, registrations)
    raise InputError(
        f"broker {registrations[0].broker_id} uses the load manager {found}, which Evenkeel does not know",
        f"use {MODULAR_CLASS} or {EXTENSIBLE_CLASS}",
    )


def _recognise_view(source: ClusterSource, cluster: str, registrations: Sequence[Registration]) -> ClusterKind:
    configurations = _read_configurations(source, registrations)
    for broker_id, configuration in configurations.items():
        name = configuration.optional_text("clusterName")
        if name is not None and name != cluster:
            raise InputError(
                f"broker {broker_id} belongs to cluster {name!r}, not {cluster!r}", "give the right cluster"
            )
    views = {
        # Releases before 4.0 do not have the setting, and keep ownership in the system topic.
        broker_id: c.optional_text("loadManagerServiceUnitStateTableViewClassName") or SYSTEM_TOPIC_VIEW_CLASS
        for broker_id, c in configurations.items()
    }
    _require_same(views, "service-unit table view")
    broker_id, view = next(iter(views.items()))
    if view not in VIEWS:
        raise InputError(
            f"broker {broker_id} uses the table view {view}, which Evenkeel does not know",
            f"use one of {', '.join(VIEWS)}",
        )
    return ClusterKind(VIEWS[view], max(map(_stats_period_s, configurations.values())))


def _read_configurations(source: ClusterSource, registrations: Sequence[Registration]) -> dict[str, JsonObject]:
    """The runtime configuration of every broker that answers; one that does not is without a report anyway."""
    answers = source.http.fetch([r.web_url + RUNTIME_PATH for r in registrations])
    found = {
        r.broker_id: JsonObject.decode(answer.body, f"broker {r.broker_id}: {RUNTIME_PATH}")
        for r, answer in zip(registrations, answers, strict=True)
        if answer.body is not None
    }
    if not found:
        raise UnavailableError(
            f"no broker answered {RUNTIME_PATH} (broker {registrations[0].broker_id}: {answers[0].problem})",
            "check that this machine reaches the brokers' web service, and with a super-user's token",
        )
    return found


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
