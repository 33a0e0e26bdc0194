"""Read a cluster into a snapshot: brokers, bundles, topics and policies at one moment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from evenkeel.adapters.cluster.broker_clocks import require_good_clock
from evenkeel.adapters.cluster.broker_rows import BrokerFacts, build_broker_rows, read_draining
from evenkeel.adapters.cluster.findings import Finding, FindingKind, name_first, tell_findings
from evenkeel.adapters.cluster.kind import ClusterKind, recognise_kind
from evenkeel.adapters.cluster.load_reports import (
    NOMINAL_NIC_KBPS,
    BrokerReport,
    BrokerStatistics,
    fetch_reports,
    fetch_topics,
    find_brokers_without_capacity,
    parse_modular_reports,
)
from evenkeel.adapters.cluster.migration import require_no_migration
from evenkeel.adapters.cluster.namespaces_reader import Namespace, read_namespaces
from evenkeel.adapters.cluster.ownership import ownership_source
from evenkeel.adapters.cluster.policy_reader import (
    anti_affinity_documents,
    domains_by_broker,
    read_policies,
    require_cluster,
)
from evenkeel.adapters.cluster.reconciliation import NamespaceRows, reconcile, reports_by_namespace, to_error
from evenkeel.adapters.cluster.registrations import Registration, read_registrations
from evenkeel.adapters.cluster.runtime_configuration import find_syncer
from evenkeel.adapters.cluster.source import ClusterSource
from evenkeel.adapters.fencing.left_switches import describe_left_off, find_left_off
from evenkeel.adapters.lake.snapshots import SnapshotContent
from evenkeel.adapters.lake.store import to_arrow
from evenkeel.model.broker_states import admit_incarnations, two_brokers_error
from evenkeel.model.errors import InputError
from evenkeel.model.pulsar_versions import tell_untested
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, LoadManager, PolicyDocument, Topic

# A transfer settles in about a tenth of a second, a split in a third; a contradiction that outlasts both is real.
REREAD_PAUSES_S = (0.3, 1.0)


def read_cluster(source: ClusterSource, cluster: str, settings: Settings, taken_at: datetime) -> SnapshotContent:
    """The cluster as it is now; missing or stale parts are noted in the content, contradictions are refused."""
    if taken_at.tzinfo is None:
        raise InputError("the snapshot's time has no time zone", "give it in UTC, such as 2026-01-31T03:00:00Z")
    require_cluster(source.configuration_tree, source.pulsar, cluster)
    migration = require_no_migration(source.tree, source.pulsar)
    reader = _Reader(source, cluster, settings, taken_at)
    registrations = reader.read_registrations()
    zxid_first = source.tree.last_zxid
    kind = recognise_kind(source, cluster, registrations)
    policies = read_policies(source, cluster)
    seen = reader.observe(kind)
    rows = reader.reconcile_all(kind, seen)
    bundles = [bundle for part in rows for bundle in part.bundles]
    policies += anti_affinity_documents(seen.namespaces[name] for name in sorted(seen.namespaces))
    facts = BrokerFacts(
        kind.load_manager, seen.registrations, seen.reports, domains_by_broker(policies), read_draining(source)
    )
    brokers = build_broker_rows(facts, bundles, settings, taken_at)
    require_good_clock(seen.clock_offsets_s, settings.clock_offset_limit_s)
    findings = [*brokers.findings, *seen.findings, *(finding for part in rows for finding in part.findings)]
    notes = [told for told in (migration, find_syncer(kind.configurations)) if told is not None]
    notes += [*_balancer_notes(source), *tell_untested({r.broker_id: r.version for r in seen.registrations})]
    notes += [*_v1_notes(seen.namespaces.values()), *_capacity_notes(kind, seen.registrations, settings)]
    notes += tell_findings(findings)
    return SnapshotContent(
        cluster=cluster,
        taken_at=taken_at,
        load_manager=kind.load_manager,
        tables={
            "brokers": to_arrow(Broker, brokers.brokers),
            "bundles": to_arrow(Bundle, bundles),
            "topics": to_arrow(Topic, sorted((t for part in rows for t in part.topics), key=lambda t: t.topic)),
            "policies": to_arrow(PolicyDocument, policies),
        },
        zxid_first=zxid_first,
        zxid_last=source.tree.last_zxid,
        oldest_report_age_s=brokers.oldest_report_age_s,
        brokers_without_report=brokers.without_report,
        brokers_with_stale_report=brokers.with_stale_report,
        notes=tuple(notes),
    )


@dataclass(slots=True)
class _Observation:
    """What was seen of a cluster; parts that contradict each other are read again."""

    registrations: Sequence[Registration]
    reports: dict[str, BrokerReport]
    namespaces: dict[str, Namespace]
    by_namespace: dict[str, list[BrokerReport]]
    findings: list[Finding]
    clock_offsets_s: Sequence[float]


@dataclass(frozen=True, slots=True)
class _Reader:
    """Reads one snapshot."""

    source: ClusterSource
    cluster: str
    settings: Settings
    taken_at: datetime
    incarnations: dict[str, int] = field(default_factory=dict)
    """The newest incarnation of every broker seen so far."""

    def read_registrations(self) -> list[Registration]:
        """Who is registered now; a broker that shows an older incarnation than before is refused."""
        found = read_registrations(self.source)
        self.incarnations.update(admit_incarnations(self.incarnations, ((r.broker_id, r.incarnation) for r in found)))
        return found

    def observe(self, kind: ClusterKind, only: Sequence[str] | None = None) -> _Observation:
        """Read the whole cluster, or everything about some namespaces."""
        registrations = self.read_registrations()
        found = self._read_reports(kind, registrations)
        ownership = ownership_source(self.source, kind.load_manager, self.cluster, registrations)
        namespaces = read_namespaces(self.source, ownership, only)
        by_namespace = reports_by_namespace(found.reports.values())
        if only is None:
            missing = sorted(by_namespace.keys() - namespaces.keys())
            namespaces |= read_namespaces(self.source, ownership, missing)
        what = FindingKind.NO_TOPICS if kind.load_manager is LoadManager.MODULAR else FindingKind.NO_REPORT
        findings = [Finding(what, name, why) for name, why in found.problems.items()]
        return _Observation(registrations, found.reports, namespaces, by_namespace, findings, found.clock_offsets_s)

    def reconcile_all(self, kind: ClusterKind, seen: _Observation) -> list[NamespaceRows]:
        """Rows of every namespace; those with a contradiction are read again before they are refused."""
        rows = self._reconcile(kind, seen, seen.namespaces)
        for pause_s in REREAD_PAUSES_S:
            doubled = _find_doubled_brokers(seen)
            faulty = sorted({*doubled, *(name for name, part in rows.items() if part.faults)})
            if not faulty:
                break
            self.source.sleep(pause_s)
            again = self.observe(kind, only=faulty)
            seen.registrations, seen.reports, seen.findings = again.registrations, again.reports, again.findings
            seen.namespaces |= again.namespaces
            for name in faulty:
                seen.by_namespace[name] = again.by_namespace.get(name, [])
            rows |= self._reconcile(kind, seen, faulty)
        for broker_id in _find_doubled_brokers(seen).values():
            raise two_brokers_error(broker_id)
        faults = [fault for name in sorted(rows) for fault in rows[name].faults]
        if faults:
            raise to_error(faults)
        return [rows[name] for name in sorted(rows)]

    def _reconcile(self, kind: ClusterKind, seen: _Observation, names: Iterable[str]) -> dict[str, NamespaceRows]:
        made_at = {broker_id: report.made_at for broker_id, report in seen.reports.items()}
        return {
            name: reconcile(seen.namespaces[name], seen.by_namespace.get(name, []), made_at, kind.load_manager)
            for name in names
        }

    def _read_reports(self, kind: ClusterKind, registrations: Sequence[Registration]) -> BrokerStatistics:
        if kind.load_manager is not LoadManager.MODULAR:
            return fetch_reports(self.source, registrations, self.settings, self.taken_at, kind.stats_period_s)
        reports = parse_modular_reports(registrations)
        topics = fetch_topics(self.source, registrations)
        for broker_id in reports.keys() & topics.found.keys():
            reports[broker_id] = replace(reports[broker_id], topics=topics.found[broker_id])
        return BrokerStatistics(reports, topics.problems, topics.clock_offsets_s)


def _find_doubled_brokers(seen: _Observation) -> dict[str, str]:
    """Namespaces with an owner's node that ends with another session than the registration of that owner.

    A broker that takes a new session looks like that for a moment; if it lasts, two processes use one id.
    """
    sessions = {r.broker_id: r.session_id for r in seen.registrations}
    return {
        name: claim.owner
        for name, namespace in sorted(seen.namespaces.items())
        for claim in namespace.claims.values()
        if claim.owner is not None and claim.session_id and sessions.get(claim.owner, 0) not in (0, claim.session_id)
    }


def _v1_notes(namespaces: Iterable[Namespace]) -> list[str]:
    names = sorted(name for namespace in namespaces for name in namespace.v1)
    if not names:
        return []
    counted = f"{len(names)} V1 namespace{'s' if len(names) > 1 else ''} (tenant/cluster/namespace)"
    verb = "are" if len(names) > 1 else "is"
    return [f"{counted}, such as {names[0]}, {verb} left alone: plans move bundles of V2 namespaces only"]


def _balancer_notes(source: ClusterSource) -> list[str]:
    """Whether a dead writer left Pulsar's balancer off; a snapshot writes nothing, so it can only say so."""
    left = find_left_off(source.tree, source.evenkeel)
    return [f"{describe_left_off(status)}; `evenkeel restore-balancer` switches them back" for status in left]


def _capacity_notes(kind: ClusterKind, registrations: Sequence[Registration], settings: Settings) -> list[str]:
    if kind.load_manager is LoadManager.MODULAR:
        return []
    nameless = find_brokers_without_capacity([r.broker_id for r in registrations], settings)
    if not nameless:
        return []
    who = "all brokers" if len(nameless) == len(registrations) else f"brokers {name_first(nameless)}"
    speed = f"cpu 100 percent and {NOMINAL_NIC_KBPS / 1e6:g} Gbit/s each"
    return [f"the settings give no capacity for {who}: taken as equal, {speed}"]
