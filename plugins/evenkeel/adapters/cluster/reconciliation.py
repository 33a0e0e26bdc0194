"""Match who owns a bundle with who reports its load; a contradiction is a fault, never resolved by a guess.

The two are never read at the same instant, and brokers repeat figures that they counted a while ago. So a report
that may be older than the bundle's last change proves nothing; only one that must be newer contradicts it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from evenkeel.adapters.cluster.findings import Finding, FindingKind
from evenkeel.adapters.cluster.load_reports import BrokerReport, Change, Load, TopicLoad
from evenkeel.adapters.cluster.namespaces_reader import Boundaries, Namespace
from evenkeel.adapters.cluster.ownership import SYSTEM_NAMESPACE, Claim, is_pinned
from evenkeel.adapters.zookeeper.paths import PulsarPaths
from evenkeel.model.bundles import BundleRange, is_v1_namespace
from evenkeel.model.errors import InputError
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import Bundle, LoadManager, Topic

_CLAIMS_NOTHING = (ServiceUnitState.FREE, ServiceUnitState.DELETED)
_REMEDY = "wait until the cluster is at rest and try again; if it lasts, unload the bundle in Pulsar"


@dataclass(frozen=True, slots=True)
class ReportedBundle:
    """One broker's report on one bundle."""

    report: BrokerReport
    load: Load
    topics: tuple[TopicLoad, ...] = ()


@dataclass(slots=True)
class NamespaceRows:
    """The rows of a namespace, its contradictions, and what was ignored."""

    bundles: list[Bundle] = field(default_factory=list)
    topics: list[Topic] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)


def reports_by_namespace(reports: Iterable[BrokerReport]) -> dict[str, list[BrokerReport]]:
    """Which brokers report load of which namespace; heartbeats, SLA monitors and V1 namespaces are left out."""
    found: dict[str, list[BrokerReport]] = defaultdict(list)
    for report in reports:
        for namespace in report.namespaces:
            if not is_pinned(namespace) and not is_v1_namespace(namespace):
                found[namespace].append(report)
    return found


def reconcile(
    namespace: Namespace, reports: Sequence[BrokerReport], made_at: Mapping[str, datetime], kind: LoadManager
) -> NamespaceRows:
    """Rows for every bundle of a namespace; `made_at` are the times of all brokers' reports."""
    rows = NamespaceRows()
    rows.findings += [Finding(FindingKind.FOREIGN_NODE, path) for path in namespace.ignored]
    boundaries = namespace.boundaries
    if boundaries is None:
        _explain_missing_boundaries(namespace, reports, rows)
        return rows
    _explain_leftovers(namespace, boundaries, rows)
    reported = _collect(namespace.name, boundaries, reports, rows)
    for bundle_range in boundaries.ranges:
        _Bundle(namespace, bundle_range, kind, made_at).add_rows(reported.get(bundle_range, []), rows)
    return rows


def to_error(faults: Sequence[str]) -> InputError:
    """The refusal of a cluster that contradicts itself."""
    more = f" (and {len(faults) - 1} more like it)" if len(faults) > 1 else ""
    return InputError(faults[0] + more, _REMEDY)


def _explain_missing_boundaries(namespace: Namespace, reports: Sequence[BrokerReport], rows: NamespaceRows) -> None:
    where = f"namespace {namespace.name} has no {PulsarPaths().local_policies(namespace.name)}"
    for bundle_range, claim in namespace.claims.items():
        if claim.state not in _CLAIMS_NOTHING:
            rows.faults.append(f"{where}, but {claim.owner or 'nobody'} holds {bundle_range} ({claim.origin})")
    rows.faults.extend(f"{where}, but {report.broker_id} reports its load" for report in reports)


def _explain_leftovers(namespace: Namespace, boundaries: Boundaries, rows: NamespaceRows) -> None:
    """Claims on ranges that the boundaries do not have: the trace of a split, or two owners of the same range."""
    known = set(boundaries.ranges)
    splitting = [r for r, claim in namespace.claims.items() if claim.state is ServiceUnitState.SPLITTING]
    for bundle_range, claim in namespace.claims.items():
        if bundle_range in known:
            continue
        is_child = any(p.lower <= bundle_range.lower and bundle_range.upper <= p.upper for p in splitting)
        if claim.state in _CLAIMS_NOTHING or is_child:
            rows.findings.append(Finding(FindingKind.TRACE_OF_SPLIT, f"{claim.origin} ({claim.state})"))
            continue
        overlapped = next(r for r in boundaries.ranges if r.upper > bundle_range.lower)
        other = namespace.claims.get(overlapped)
        rows.faults.append(
            f"bundle {namespace.name}/{bundle_range} is {claim.state} by {claim.owner or 'nobody'} but is not in the "
            f"boundaries of its namespace, where it overlaps {overlapped} of {other.owner if other else 'nobody'}"
        )


def _collect(
    namespace: str, boundaries: Boundaries, reports: Sequence[BrokerReport], rows: NamespaceRows
) -> dict[BundleRange, list[ReportedBundle]]:
    """Reports by the ranges that the namespace has now."""
    found: dict[BundleRange, list[ReportedBundle]] = defaultdict(list)
    for report in reports:
        topics = _place_topics(report.topics.get(namespace, ()), boundaries.ranges)
        if report.bundles is None:
            loads = {r: Load.total(topic.load for topic in members) for r, members in topics.items()}
        else:
            loads = _current_loads(namespace, boundaries, report, rows)
        for bundle_range, load in loads.items():
            found[bundle_range].append(ReportedBundle(report, load, tuple(topics.get(bundle_range, ()))))
    return found


def _place_topics(topics: Iterable[TopicLoad], ranges: Sequence[BundleRange]) -> dict[BundleRange, list[TopicLoad]]:
    lowers, known = [r.lower for r in ranges], set(ranges)
    placed: dict[BundleRange, list[TopicLoad]] = defaultdict(list)
    for topic in topics:
        # A report from before a split still names the parent; the topic's hash tells the child.
        is_current = topic.range in known
        placed[topic.range if is_current else ranges[bisect_right(lowers, topic.hash) - 1]].append(topic)
    return placed


def _current_loads(
    namespace: str, boundaries: Boundaries, report: BrokerReport, rows: NamespaceRows
) -> dict[BundleRange, Load]:
    """What a broker reports of the ranges that exist; others it may report only from before a split."""
    loads = {} if report.bundles is None else report.bundles.get(namespace, {})
    known = set(boundaries.ranges)
    for bundle_range in sorted(loads.keys() - known):
        name = f"{namespace}/{bundle_range}"
        if report.may_predate(Change(boundaries.mzxid)):
            rows.findings.append(Finding(FindingKind.REPORT_BEFORE_SPLIT, name, f"by {report.broker_id}"))
        else:
            rows.faults.append(f"{report.broker_id} reports load of {name}, which is not in its namespace's boundaries")
    return {bundle_range: load for bundle_range, load in loads.items() if bundle_range in known}


@dataclass(frozen=True, slots=True)
class _Bundle:
    """One bundle of the boundaries, on its way to becoming a row."""

    namespace: Namespace
    range: BundleRange
    kind: LoadManager
    made_at: Mapping[str, datetime]

    @property
    def name(self) -> str:
        return f"{self.namespace.name}/{self.range}"

    def add_rows(self, reported: Sequence[ReportedBundle], rows: NamespaceRows) -> None:
        claim = self.namespace.claims.get(self.range)
        if claim is not None and claim.rival is not None:
            rows.faults.append(f"bundle {self.name} is owned by two brokers, {claim.owner} and {claim.rival}")
        elif claim is not None and claim.parties:
            self._add_claimed(claim, reported, rows)
        else:
            self._add_unclaimed(claim, reported, rows)

    def _add_claimed(self, claim: Claim, reported: Sequence[ReportedBundle], rows: NamespaceRows) -> None:
        strangers = [r for r in reported if r.report.broker_id not in claim.parties]
        for stranger in strangers:
            if not self._may_predate(stranger.report, claim.change):
                rows.faults.append(
                    f"bundle {self.name} is {claim.state} by {claim.owner or ' and '.join(sorted(claim.parties))}, "
                    f"but {stranger.report.broker_id} reports its load"
                )
        # The owner's report first; else that of a party to the hand-over; else that of a former owner.
        ranked = sorted(reported, key=lambda r: (r.report.broker_id != claim.owner, r in strangers, r.report.broker_id))
        self._add(claim, claim.owner, claim.state, ranked[0] if ranked else None, rows)

    def _add_unclaimed(self, claim: Claim | None, reported: Sequence[ReportedBundle], rows: NamespaceRows) -> None:
        state = claim.state if claim is not None else ServiceUnitState.INIT
        if len(reported) == 1 and self.namespace.name == SYSTEM_NAMESPACE:
            # The leader serves the load manager's own topics without a record of ownership.
            self._add(claim, reported[0].report.broker_id, ServiceUnitState.OWNED, reported[0], rows)
            return
        change = claim.change if claim is not None else self.namespace.change
        current = [r.report.broker_id for r in reported if not self._may_predate(r.report, change)]
        if current:
            rows.faults.append(
                f"bundle {self.name} has no owner ({state}), but {' and '.join(current)} reports its load"
            )
        elif reported:
            reporter = reported[0].report.broker_id
            rows.findings.append(Finding(FindingKind.LOST_OWNER, self.name, f"by {reporter}"))
        self._add(claim, None, state, None, rows)

    def _may_predate(self, report: BrokerReport, change: Change) -> bool:
        # A claim kept in a topic has no time that could contradict a report.
        return self.kind is LoadManager.EXTENSIBLE_SYSTEM_TOPIC or report.may_predate(change)

    def _add(
        self,
        claim: Claim | None,
        owner: str | None,
        state: ServiceUnitState,
        chosen: ReportedBundle | None,
        rows: NamespaceRows,
    ) -> None:
        load = chosen.load if chosen else Load()
        rows.bundles.append(
            Bundle(
                tenant=self.namespace.name.partition("/")[0],
                namespace=self.namespace.name,
                bundle=self.name,
                range_lower=self.range.lower,
                range_upper=self.range.upper,
                owner=owner,
                state=str(state),
                version_id=claim.version_id if claim else None,
                znode_version=claim.znode_version if claim else None,
                msg_rate_in_per_s=load.msg_rate_in,
                msg_rate_out_per_s=load.msg_rate_out,
                throughput_in_bytes_per_s=load.throughput_in,
                throughput_out_bytes_per_s=load.throughput_out,
                topics=load.topics,
                producers=load.producers,
                consumers=load.consumers,
                # An owner whose report leaves this bundle out carries no load of it.
                reported_at=chosen.report.made_at if chosen else self.made_at.get(owner or ""),
            )
        )
        rows.topics.extend(self._to_topic(topic) for topic in (chosen.topics if chosen else ()))

    def _to_topic(self, topic: TopicLoad) -> Topic:
        load = topic.load
        return Topic(
            topic=topic.name,
            bundle=self.name,
            hash=topic.hash,
            msg_rate_in_per_s=load.msg_rate_in,
            msg_rate_out_per_s=load.msg_rate_out,
            throughput_in_bytes_per_s=load.throughput_in,
            throughput_out_bytes_per_s=load.throughput_out,
            producers=load.producers,
            consumers=load.consumers,
        )
