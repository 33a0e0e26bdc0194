"""The table of brokers: what they report, and their states in the sense of KIP-343 (`model.broker_states`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from evenkeel.adapters.cluster.findings import Finding, FindingKind
from evenkeel.adapters.cluster.load_reports import BrokerReport
from evenkeel.adapters.cluster.registrations import Registration
from evenkeel.adapters.cluster.source import ClusterSource
from evenkeel.model.broker_states import BrokerSighting, judge
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState, Bundle, LoadManager


@dataclass(frozen=True, slots=True)
class BrokerRows:
    """The rows of the table, and what the manifest says about the reports."""

    brokers: list[Broker]
    without_report: tuple[str, ...]
    with_stale_report: tuple[str, ...]
    oldest_report_age_s: float | None
    findings: tuple[Finding, ...]


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """Everything known about the brokers of a cluster."""

    kind: LoadManager
    registrations: Sequence[Registration]
    reports: Mapping[str, BrokerReport]
    domains: Mapping[str, str]
    draining: frozenset[str]


def read_draining(source: ClusterSource) -> frozenset[str]:
    """Brokers that an operator has marked for draining."""
    (listed,) = source.tree.children([source.evenkeel.draining])
    return frozenset(listed.names if listed else ())


def build_broker_rows(
    facts: BrokerFacts, bundles: Iterable[Bundle], settings: Settings, taken_at: datetime
) -> BrokerRows:
    """A row for each registered broker, and for each that still owns bundles without being registered."""
    registered = {r.broker_id: r for r in facts.registrations}
    gone = sorted({b.owner for b in bundles if b.owner is not None} - registered.keys())
    ages = {name: (taken_at - r.made_at).total_seconds() for name, r in facts.reports.items() if name in registered}
    timeouts = settings.heartbeat_timeouts
    stale = frozenset(name for name, age in ages.items() if timeouts.is_overdue(age))
    states = {
        name: judge(BrokerSighting(name in registered, ages.get(name), name in facts.draining), timeouts)
        for name in (*registered, *gone)
    }
    rows = [_to_row(registered[name], facts, states[name]) for name in sorted(registered)]
    rows += [_to_gone_row(name, facts, states[name]) for name in gone]
    return BrokerRows(
        brokers=sorted(rows, key=lambda row: row.broker_id),
        without_report=tuple(sorted({*registered, *gone} - ages.keys())),
        with_stale_report=tuple(sorted(stale)),
        oldest_report_age_s=max((max(age, 0.0) for age in ages.values()), default=None),
        findings=(
            *(Finding(FindingKind.NOT_REGISTERED, name) for name in gone),
            *(
                Finding(FindingKind.SILENT, name, f"for {ages[name]:.0f} s")
                for name in sorted(ages)
                if timeouts.is_fenced(ages[name])
            ),
        ),
    )


def _to_row(registration: Registration, facts: BrokerFacts, state: BrokerState) -> Broker:
    broker_id = registration.broker_id
    report = facts.reports.get(broker_id)
    return Broker(
        broker_id=broker_id,
        incarnation=registration.incarnation,
        state=str(state),
        version=registration.version,
        load_manager=str(facts.kind),
        failure_domain=facts.domains.get(broker_id),
        reported_at=report.made_at if report else None,
        web_service_url=registration.web_url,
        takes_persistent_topics=registration.takes_persistent_topics,
        **(report.resources if report else {}),
    )


def _to_gone_row(broker_id: str, facts: BrokerFacts, state: BrokerState) -> Broker:
    return Broker(
        broker_id=broker_id,
        incarnation=None,
        state=str(state),
        version=None,
        load_manager=str(facts.kind),
        failure_domain=facts.domains.get(broker_id),
        reported_at=None,
        web_service_url=None,
    )
