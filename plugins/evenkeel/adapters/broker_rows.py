"""Brokers as KIP-343 sees them: Initial, Active, Inactive or Stopping (DESIGN 6)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from evenkeel.adapters.cluster_source import ClusterSource
from evenkeel.adapters.load_reports import BrokerReport
from evenkeel.adapters.registrations import Registration
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState, Bundle, LoadManager


@dataclass(frozen=True, slots=True)
class BrokerRows:
    """The rows of the table, and what the manifest says of the reports."""

    brokers: list[Broker]
    without_report: tuple[str, ...]
    with_stale_report: tuple[str, ...]
    oldest_report_age_s: float | None
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What was found out about the brokers of a cluster."""

    kind: LoadManager
    registrations: Sequence[Registration]
    reports: Mapping[str, BrokerReport]
    domains: Mapping[str, str]
    draining: frozenset[str]


def read_draining(source: ClusterSource, cluster: str) -> frozenset[str]:
    """Brokers that an operator has marked for draining."""
    (listed,) = source.tree.children([f"{source.evenkeel_root}/{cluster}/draining"])
    return frozenset(listed.names if listed else ())


def build_broker_rows(
    facts: BrokerFacts, bundles: Iterable[Bundle], settings: Settings, taken_at: datetime
) -> BrokerRows:
    """A row for each registered broker, and for each that still owns bundles without being registered."""
    registered = {r.broker_id: r for r in facts.registrations}
    gone = sorted({b.owner for b in bundles if b.owner is not None} - registered.keys())
    ages = {name: (taken_at - r.made_at).total_seconds() for name, r in facts.reports.items() if name in registered}
    # A report from far in the future comes from a broken clock, and would otherwise stay fresh for ever.
    stale = frozenset(name for name, age in ages.items() if abs(age) > settings.broker_load_data_ttl_in_seconds)
    rows = [_to_row(registered[name], facts, stale) for name in sorted(registered)]
    rows += [_to_gone_row(name, facts) for name in gone]
    return BrokerRows(
        brokers=sorted(rows, key=lambda row: row.broker_id),
        without_report=tuple(sorted({*registered, *gone} - ages.keys())),
        with_stale_report=tuple(sorted(stale)),
        oldest_report_age_s=max((max(age, 0.0) for age in ages.values()), default=None),
        notes=tuple(f"broker {name} owns bundles but is not registered" for name in gone),
    )


def _to_row(registration: Registration, facts: BrokerFacts, stale: frozenset[str]) -> Broker:
    broker_id = registration.broker_id
    report = facts.reports.get(broker_id)
    if broker_id in facts.draining:
        state = BrokerState.STOPPING
    elif report is None:
        state = BrokerState.INITIAL
    else:
        state = BrokerState.INACTIVE if broker_id in stale else BrokerState.ACTIVE
    return Broker(
        broker_id=broker_id,
        incarnation=registration.incarnation,
        state=str(state),
        version=registration.version,
        load_manager=str(facts.kind),
        failure_domain=facts.domains.get(broker_id),
        reported_at=report.made_at if report else None,
        web_service_url=registration.web_url,
        **(report.resources if report else {}),
    )


def _to_gone_row(broker_id: str, facts: BrokerFacts) -> Broker:
    return Broker(
        broker_id=broker_id,
        incarnation=None,
        state=str(BrokerState.INACTIVE),
        version=None,
        load_manager=str(facts.kind),
        failure_domain=facts.domains.get(broker_id),
        reported_at=None,
        web_service_url=None,
    )
