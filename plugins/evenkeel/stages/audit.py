"""Audit a cluster: compare runs with their plans, learn from the difference, and find what needs attention.

Everything is concluded from the lake; with a connection, marks and switches are read from ZooKeeper too. What was
learnt is stored for the next plan, and the audit itself in a folder of its own.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evenkeel import __version__
from evenkeel.adapters.lake.audits import AuditStore, name_audit
from evenkeel.adapters.lake.learnt import CalibrationStore, HandOverStore
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.auditing import findings as judge
from evenkeel.auditing.comparisons import HORIZONS_S, Comparison, find_comparisons, is_comparable
from evenkeel.auditing.movers import ClusterState, MoverFinder
from evenkeel.model import metrics
from evenkeel.model.audit import Audit, AuditFinding, AuditRecord, BundleMove, count_severities
from evenkeel.model.canonical import sha256_hex
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.metrics import Sample, render_metrics
from evenkeel.model.outside_json import parse_json
from evenkeel.model.policies import Policies
from evenkeel.model.run import RunRecord
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState, PolicyDocument, SnapshotManifest
from evenkeel.model.timestamps import parse_time
from evenkeel.model.verdict import Severity
from evenkeel.stages.learnt_costs import SETTING_OF_KIND
from evenkeel_spark.application import SparkApplication

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from evenkeel.auditing.cpu_weights import LearntWeights
    from evenkeel.model.audit import Oscillation, PredictionFigures
    from evenkeel.model.load import HandOverTime

DEFAULT_PERIOD = timedelta(days=7)
DEFAULT_DEADLINE_S = 1800.0
SAMPLE_S = 3600.0
SHEDDING = "loadBalancerSheddingEnabled"
SWITCHES = (SHEDDING, "loadBalancerAutoBundleSplitEnabled")


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """How far an audit looks back, when after a run it looks at the load, and what it averages."""

    period: timedelta = DEFAULT_PERIOD
    horizons_s: tuple[int, ...] = HORIZONS_S
    sample_s: float = SAMPLE_S
    deadline_s: float = DEFAULT_DEADLINE_S


@dataclass(frozen=True, slots=True)
class _Measured:
    """What Spark computed."""

    predictions: tuple[Any, ...]
    problems: Mapping[str, str]
    moves: tuple[BundleMove, ...]
    oscillation: Oscillation
    learnt: LearntWeights
    policies: tuple[judge.PolicyState, ...]
    owners: Mapping[str, str | None]


def audit_cluster(
    lake: Lake,
    connection: ClusterConnection | None,
    cluster: str,
    settings: Settings,
    master: str,
    now: datetime,
    options: AuditOptions | None = None,
    log: Path | None = None,
    on_stage: Callable[[str], None] = lambda _: None,
) -> Audit:
    """Audit the period before `now`, store what was learnt and found, and return it."""
    chosen = options or AuditOptions()
    period = _read_period(lake, cluster, now, chosen)
    with SparkApplication("evenkeel audit", master) as spark, tempfile.TemporaryDirectory() as scratch:
        on_stage("Spark: comparing runs with their plans")
        kept = log or Path(scratch) / "audit.log"
        measured = spark.run(lambda: _measure(spark(), lake, period, settings, chosen), kept, chosen.deadline_s)
    on_stage("storing what was learnt and found")
    hand_overs = _learn_hand_overs(lake, period, settings)
    calibration_id = _store_weights(lake, period, measured.learnt)
    hand_over_id = HandOverStore(lake).write(cluster, now, hand_overs) if hand_overs else None
    from evenkeel.auditing.figures import measure_predictions

    figures = measure_predictions(
        _with_problems(period.comparisons, measured.problems), measured.predictions, settings.min_utilisation
    )
    found = judge.most_severe_first(_judge(lake, connection, period, measured, figures, hand_overs))
    return _store(lake, period, measured, tuple(figures), found, calibration_id, hand_over_id)


def find_critical(lake: Lake, cluster: str) -> tuple[AuditFinding, ...]:
    """The critical findings of a cluster's newest audit; none if it was never audited.

    An audit that cannot be read counts as critical: nobody knows what it found.
    """
    store = AuditStore(lake)
    latest = store.find_latest(cluster)
    if latest is None:
        return ()
    try:
        return store.load(cluster, latest).of(Severity.CRITICAL)
    except InputError as error:
        sentence = f"the newest audit {latest} cannot be read: {error.cause}"
        return (AuditFinding(str(Severity.CRITICAL), "collection", cluster, sentence, "audit again"),)


@dataclass(frozen=True, slots=True)
class _Period:
    cluster: str
    since: datetime
    now: datetime
    manifests: tuple[SnapshotManifest, ...]
    runs: tuple[RunRecord, ...]
    comparisons: tuple[Comparison, ...]

    @property
    def own_runs(self) -> list[RunRecord]:
        """The runs that ended in the period, oldest first."""
        return [run for run in self.runs if parse_time(run.ended_at) >= self.since]


def _read_period(lake: Lake, cluster: str, now: datetime, options: AuditOptions) -> _Period:
    since = now - options.period
    store = SnapshotStore(lake)
    # An id begins with its second, which saves reading the manifests of all other times.
    first, last = (f"{moment:%Y%m%dT%H%M%SZ}" for moment in (since, now))
    near = [name for name in store.ids(cluster) if first <= name.partition("-")[0] <= last]
    manifests = sorted((store.load(cluster, name) for name in near), key=lambda m: (m.taken_at, m.snapshot_id))
    every_run = sorted(RunStore(lake).records(cluster), key=lambda run: (run.started_at, run.epoch))
    runs = tuple(run for run in every_run if parse_time(run.started_at) <= now)
    own = [run for run in runs if parse_time(run.ended_at) >= since]
    comparisons = find_comparisons(own, manifests, now, options.horizons_s)
    return _Period(cluster, since, now, tuple(manifests), runs, tuple(comparisons))


def _measure(spark: SparkSession, lake: Lake, period: _Period, settings: Settings, options: AuditOptions) -> _Measured:
    from evenkeel.auditing.cpu_weights import learn_cpu_weights
    from evenkeel_spark.audits import compare_runs, find_namespaces, find_owner_changes, sample_cpu

    compared = compare_runs(spark, lake, period.cluster, period.comparisons)
    changes, oscillation = find_owner_changes(spark, lake, period.manifests)
    named = {change.earlier_snapshot_id for change in changes} | {change.snapshot_id for change in changes}
    states = {m.snapshot_id: read_state(lake, m) for m in period.manifests if m.snapshot_id in named}
    finder = MoverFinder(period.runs, states)
    samples = sample_cpu(spark, lake, period.manifests, period.runs, settings, options.sample_s)
    present = _present_weights(lake, period)
    daily = _one_a_day(period.manifests)
    owned = find_namespaces(spark, lake, daily) if daily else {}
    return _Measured(
        predictions=compared.predictions,
        problems=compared.problems,
        moves=tuple(finder.find(change) for change in changes),
        oscillation=oscillation,
        learnt=learn_cpu_weights(samples, present, period.now),
        policies=tuple(_read_policies(lake, m, owned[m.snapshot_id]) for m in daily),
        owners=_owners_of_last_plan(lake, period),
    )


def _one_a_day(manifests: Sequence[SnapshotManifest]) -> list[SnapshotManifest]:
    """The first snapshot of each day, and the newest."""
    first = {m.taken_at.date(): m for m in reversed(manifests)}
    chosen = {m.snapshot_id: m for m in (*first.values(), *manifests[-1:])}
    return sorted(chosen.values(), key=lambda m: (m.taken_at, m.snapshot_id))


def _present_weights(lake: Lake, period: _Period) -> dict[str, Any]:
    store = CalibrationStore(lake)
    known = store.find(period.cluster, period.now)
    return {} if known is None else {row.key: row for row in store.load(period.cluster, known)}


def _owners_of_last_plan(lake: Lake, period: _Period) -> dict[str, str | None]:
    """The owners in the newest snapshot of what the last run moved; bundles that were split since are gone."""
    import pyarrow as pa
    import pyarrow.compute as pc

    run = _last_applied(period)
    if run is None or not period.manifests or period.manifests[-1].taken_at < parse_time(run.ended_at):
        return {}
    table = SnapshotStore(lake).read_table(period.manifests[-1], "bundles")
    names = pa.array([result.bundle for result in run.results], pa.string())
    moved = table.filter(pc.is_in(table["bundle"], value_set=names))
    return dict(zip(moved["bundle"].to_pylist(), moved["owner"].to_pylist(), strict=True))


def _last_applied(period: _Period) -> RunRecord | None:
    return next((run for run in reversed(period.runs) if is_comparable(run)), None)


def read_state(lake: Lake, manifest: SnapshotManifest) -> ClusterState:
    """What a snapshot says about brokers and switches."""
    brokers = _rows(lake, manifest, "brokers", Broker)
    return ClusterState.of(brokers, SHEDDING in _switched_off(_rows(lake, manifest, "policies", PolicyDocument)))


def _read_policies(
    lake: Lake, manifest: SnapshotManifest, owned: Sequence[tuple[str, str | None]]
) -> judge.PolicyState:
    live = [b.broker_id for b in _rows(lake, manifest, "brokers", Broker) if b.state != BrokerState.INACTIVE]
    policies = Policies.from_documents(_rows(lake, manifest, "policies", PolicyDocument))
    return judge.PolicyState(manifest, policies, live, owned)


def _rows(lake: Lake, manifest: SnapshotManifest, name: str, table: type) -> list[Any]:
    return from_arrow(table, SnapshotStore(lake).read_table(manifest, name), lake.uri_of(manifest.tables[name].path))


def _switched_off(documents: Iterable[PolicyDocument]) -> list[str]:
    """Switches of Pulsar's balancer that the dynamic configuration sets to false."""
    for row in documents:
        if row.kind == "dynamic_configuration":
            try:
                values = parse_json(row.document)
            except ValueError:
                return []
            return [key for key in SWITCHES if isinstance(values, dict) and str(values.get(key)).lower() == "false"]
    return []


def _learn_hand_overs(lake: Lake, period: _Period, settings: Settings) -> list[HandOverTime]:
    from evenkeel.auditing.hand_overs import learn_hand_overs

    plans = PlanStore(lake)
    told = []
    for run in period.own_runs:
        if is_comparable(run):
            try:
                stored = plans.load(run.plan_id)
            except InputError:
                # The comparison of the same run says so.
                continue
            told.append((run, stored.plan.load_manager, stored.steps))
    present_ms = {kind: int(getattr(settings, name)) for kind, name in SETTING_OF_KIND.items()}
    return learn_hand_overs(told, present_ms, period.now)


def _store_weights(lake: Lake, period: _Period, learnt: LearntWeights) -> str | None:
    return CalibrationStore(lake).write(period.cluster, period.now, learnt.rows) if learnt.rows else None


def _with_problems(comparisons: Sequence[Comparison], problems: Mapping[str, str]) -> list[Comparison]:
    """Comparisons whose plan could not be read say so."""
    told = []
    for each in comparisons:
        problem = problems.get(each.run.run_id) or problems.get(each.run.plan_id)
        is_lost = problem is not None and each.manifest is not None
        told.append(Comparison(each.run, each.horizon_s, None, problem or "") if is_lost else each)
    return told


def _judge(
    lake: Lake,
    connection: ClusterConnection | None,
    period: _Period,
    measured: _Measured,
    figures: Sequence[PredictionFigures],
    hand_overs: Sequence[HandOverTime],
) -> Iterator[AuditFinding]:
    yield from judge.judge_predictions(figures)
    yield from judge.judge_learning(measured.learnt, hand_overs)
    yield from judge.judge_oscillation(period.cluster, measured.oscillation, measured.moves)
    yield from judge.judge_drift(_last_applied(period), measured.owners, measured.moves)
    yield from judge.judge_policies(measured.policies)
    yield from judge.judge_collection(period.cluster, period.manifests, period.now)
    marks, left_off = _look_at_zookeeper(connection) if connection is not None else ({}, [])
    newest = period.manifests[-1:]
    brokers = [broker for m in newest for broker in _rows(lake, m, "brokers", Broker)]
    stopping = {b.broker_id: None for b in brokers if b.state == BrokerState.STOPPING} if connection is None else {}
    since = _stopping_since(lake, period, [*marks, *stopping])
    yield from judge.judge_marks({**stopping, **marks}, since, period.now)
    off = [key for m in newest for key in _switched_off(_rows(lake, m, "policies", PolicyDocument))]
    yield from judge.judge_switches(period.cluster, left_off, off)


def _look_at_zookeeper(connection: ClusterConnection) -> tuple[dict[str, Any], list[str]]:
    from evenkeel.adapters.fencing.directives import Draining
    from evenkeel.adapters.fencing.left_switches import describe_left_off, find_left_off
    from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
    from evenkeel.adapters.zookeeper.session import open_session

    with open_session(connection) as session:
        marks = Draining(session, connection).marked()
        left_off = find_left_off(session, EvenkeelPaths(connection.home))
        return dict(marks), [describe_left_off(status) for status in left_off]


def _stopping_since(lake: Lake, period: _Period, brokers: Sequence[str]) -> dict[str, datetime]:
    """Since when the daily snapshots have shown brokers as Stopping, without a break until now."""
    since: dict[str, datetime] = {}
    waiting = set(brokers)
    for manifest in reversed(_one_a_day(period.manifests)):
        if not waiting:
            break
        rows = _rows(lake, manifest, "brokers", Broker)
        waiting &= {broker.broker_id for broker in rows if broker.state == BrokerState.STOPPING}
        since |= dict.fromkeys(waiting, manifest.taken_at)
    return since


def _store(
    lake: Lake,
    period: _Period,
    measured: _Measured,
    figures: tuple[PredictionFigures, ...],
    found: tuple[AuditFinding, ...],
    calibration_id: str | None,
    hand_over_id: str | None,
) -> Audit:
    from evenkeel.report.audit_page import render_audit

    store = AuditStore(lake)
    tables = {"findings": found, "figures": figures, "predictions": measured.predictions, "moves": measured.moves}
    encoded = store.encode(tables)
    record = AuditRecord(
        cluster=period.cluster,
        audited_at=period.now,
        since=period.since,
        snapshots=len(period.manifests),
        runs=tuple(run.run_id for run in period.own_runs),
        counts=count_severities(found),
        oscillation=measured.oscillation,
        cpu_calibration_id=calibration_id,
        hand_over_id=hand_over_id,
        tables={name: sha256_hex(data) for name, data in encoded.items()},
        library_version=__version__,
    )
    prom = render_metrics(period.cluster, _measure_audit(record, figures, measured.moves))
    page = render_audit(record, found, figures, measured.moves)
    audit_id = store.write(record, encoded, {"report.html": page.encode(), "metrics.prom": prom.encode()})
    return Audit(audit_id, store.uri_of(period.cluster, audit_id), record, **tables)


def _measure_audit(
    record: AuditRecord, figures: Sequence[PredictionFigures], moves: Sequence[BundleMove]
) -> Iterator[Sample]:
    yield Sample(metrics.AUDIT_INFO, 1, {"audit": name_audit(record)})
    yield Sample(metrics.AUDIT_TIME, record.audited_at.timestamp())
    for severity, count in record.counts.items():
        yield Sample(metrics.AUDIT_FINDINGS, count, {"severity": severity})
    measured = [row for row in figures if row.wape_ratio is not None]
    newest = measured[-1].run_id if measured else None
    for row in measured:
        if row.run_id == newest:
            labels = {"resource": row.resource, "horizon": f"{row.horizon_s}s"}
            yield Sample(metrics.AUDIT_ERROR, row.wape_ratio or 0.0, labels)
            yield Sample(metrics.AUDIT_BIAS, row.bias_ratio or 0.0, labels)
    yield Sample(metrics.AUDIT_RETURN_RATE, record.oscillation.return_rate)
    for mover, count in Counter(move.mover for move in moves).most_common():
        yield Sample(metrics.AUDIT_MOVES, count, {"mover": mover})
