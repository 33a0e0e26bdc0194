"""The Spark job of an audit: compare runs with their plans, find changes of owner, sample cpu for learning.

The history stays on the executors. What comes back has one row per broker and comparison, per changed owner, or per
broker, hour and namespace.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow, to_arrow
from evenkeel.auditing.comparisons import Comparison
from evenkeel.auditing.cpu_weights import CpuSamples
from evenkeel.model.audit import LoadPrediction, Oscillation, OwnerChange
from evenkeel.model.errors import InputError
from evenkeel.model.load import MILLI, Resource, limit_units, whole
from evenkeel.model.plan import BrokerBalance
from evenkeel.model.run import RunRecord
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, SnapshotManifest
from evenkeel.model.timestamps import parse_time
from evenkeel.planning.problem.loads import horizon_hours
from evenkeel_spark.history import read_cluster
from evenkeel_spark.lake_frames import read_load_tables, read_snapshot_table, read_snapshots
from evenkeel_spark.transforms.columns import is_system
from evenkeel_spark.transforms.cpu_samples import broker_samples, cpu_by_sample, messages_by_sample
from evenkeel_spark.transforms.owner_changes import oscillation_figures, owner_changes
from evenkeel_spark.transforms.planning_loads import judged_rates, planning_loads
from evenkeel_spark.transforms.realised_loads import (
    COMPARISON_COLUMNS,
    carried_loads,
    known_bundles,
    load_predictions,
)

SAMPLE_S = 3600.0
"""What is averaged into one sample of a broker's cpu."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ComparedRuns:
    """The predictions of all runs that could be compared, and why others could not."""

    predictions: tuple[LoadPrediction, ...]
    problems: Mapping[str, str]


def compare_runs(spark: SparkSession, lake: Lake, cluster: str, comparisons: Sequence[Comparison]) -> ComparedRuns:
    """Compare the load after runs with what their plans predicted; `problems` has runs whose plan cannot be read."""
    plans, problems = _read_plans(lake, comparisons)
    known, usable = _known_frames(spark, lake, cluster, plans, problems)
    chosen = [c for c in comparisons if c.manifest is not None and c.run.plan_id in usable]
    if not chosen:
        return ComparedRuns((), problems)
    manifests = {c.manifest.snapshot_id: c.manifest for c in chosen if c.manifest is not None}
    bundles = read_snapshots(spark, lake, list(manifests.values()), "bundles")
    carried = carried_loads(_comparison_frame(spark, chosen), reduce(DataFrame.unionByName, known), bundles)
    predicted = _predicted_frame(spark, chosen, plans)
    measured = _measured_frame(spark, lake, chosen, plans)
    table = load_predictions(predicted, measured, carried).orderBy("run_id", "horizon_s", "broker_id", "resource")
    rows: list[LoadPrediction] = from_arrow(LoadPrediction, table.toArrow(), "the predictions")
    return ComparedRuns(tuple(rows), problems)


def find_owner_changes(
    spark: SparkSession, lake: Lake, manifests: Sequence[SnapshotManifest]
) -> tuple[list[OwnerChange], Oscillation]:
    """All changes of owner between these snapshots, oldest first, and how much of it was to and fro."""
    if len(manifests) < 2:
        return [], Oscillation(0, 0, 0, 0, 0, 0)
    changes = read_snapshots(spark, lake, manifests, "bundles").transform(owner_changes).persist()
    try:
        (row,) = changes.transform(oscillation_figures).collect()
        listed = changes.orderBy("seen_at", "bundle").toArrow()
        return from_arrow(OwnerChange, listed, "the changes of owners"), Oscillation(**row.asDict())
    finally:
        changes.unpersist()


def sample_cpu(
    spark: SparkSession,
    lake: Lake,
    manifests: Sequence[SnapshotManifest],
    runs: Sequence[RunRecord],
    settings: Settings,
    sample_s: float = SAMPLE_S,
) -> CpuSamples:
    """Samples of brokers' cpu with the messages that they carried; nothing from snapshots during a run."""
    outside = [(m, settled_at) for m in manifests if (settled_at := _settled_at(m.taken_at, runs)) is not None]
    if not outside:
        return CpuSamples(np.zeros(0), np.zeros(0), np.zeros(0, np.int64), (), np.zeros(0))
    chosen_manifests = [manifest for manifest, _ in outside]
    chosen = (
        read_snapshots(spark, lake, chosen_manifests, "brokers")
        .transform(broker_samples, _sample_frame(spark, outside, sample_s), settings.broker_load_data_ttl_in_seconds)
        .persist()
    )
    try:
        cpu = chosen.transform(cpu_by_sample).orderBy("sample", "broker_id").toArrow()
        bundles = read_snapshots(spark, lake, chosen_manifests, "bundles")
        messages = bundles.transform(messages_by_sample, chosen).toArrow()
    finally:
        chosen.unpersist()
    return _as_samples(cpu, messages)


def find_namespaces(
    spark: SparkSession, lake: Lake, manifests: Sequence[SnapshotManifest]
) -> dict[str, list[tuple[str, str | None]]]:
    """Which brokers own bundles of which namespaces, by snapshot; pairs without repetition."""
    planned = read_snapshots(spark, lake, manifests, "bundles").where(~is_system(F.col("namespace")))
    pairs = planned.select("snapshot_id", "namespace", "owner").distinct()
    found: dict[str, list[tuple[str, str | None]]] = {manifest.snapshot_id: [] for manifest in manifests}
    for row in pairs.orderBy("snapshot_id", "namespace", "owner").collect():
        found[row["snapshot_id"]].append((row["namespace"], row["owner"]))
    return found


def _read_plans(lake: Lake, comparisons: Iterable[Comparison]) -> tuple[dict[str, StoredPlan], dict[str, str]]:
    plans: dict[str, StoredPlan] = {}
    problems: dict[str, str] = {}
    for comparison in comparisons:
        run = comparison.run
        if comparison.manifest is None or run.plan_id in plans or run.run_id in problems:
            continue
        try:
            plans[run.plan_id] = PlanStore(lake).load(run.plan_id)
        except InputError as error:
            problems[run.run_id] = error.cause
    return plans, problems


def _known_frames(
    spark: SparkSession, lake: Lake, cluster: str, plans: Mapping[str, StoredPlan], problems: dict[str, str]
) -> tuple[list[DataFrame], set[str]]:
    """The loads that each plan knew, computed as its planner and its gate did."""
    frames, usable = [], set()
    for plan_id, stored in plans.items():
        try:
            frames.append(_known_loads(spark, lake, cluster, stored))
            usable.add(plan_id)
        except InputError as error:
            problems[plan_id] = error.cause
    return frames, usable


def _known_loads(spark: SparkSession, lake: Lake, cluster: str, stored: StoredPlan) -> DataFrame:
    plan = stored.plan
    settings = Settings.from_json(plan.settings, stored.uri)
    manifest = SnapshotStore(lake).load(cluster, plan.snapshot_id)
    bundles = read_snapshot_table(spark, lake, manifest, "bundles")
    profile = read_load_tables(spark, lake, plan.profile_id) if plan.profile_id else None
    hours = horizon_hours(manifest.taken_at, settings.plan_expires_after_s)
    brokers = read_cluster(lake, cluster, plan.snapshot_id).brokers
    loads = judged_rates(bundles, profile, hours, settings).transform(planning_loads, brokers, settings)
    return known_bundles(loads, bundles, stored.plan_id)


def _comparison_frame(spark: SparkSession, chosen: Sequence[Comparison]) -> DataFrame:
    rows = [(c.run.run_id, c.run.plan_id, c.horizon_s, c.manifest.snapshot_id) for c in chosen if c.manifest]
    columns = [pa.array(values) for values in zip(*rows, strict=True)]
    return spark.createDataFrame(pa.table(dict(zip(COMPARISON_COLUMNS, columns, strict=True))))


def _predicted_frame(spark: SparkSession, chosen: Sequence[Comparison], plans: Mapping[str, StoredPlan]) -> DataFrame:
    """What the plans predicted for each comparison."""
    plan_ids = sorted({c.run.plan_id for c in chosen})
    rows = [row for plan_id in plan_ids for row in plans[plan_id].brokers]
    owners = [plan_id for plan_id in plan_ids for _ in plans[plan_id].brokers]
    table = to_arrow(BrokerBalance, rows).append_column("plan_id", pa.array(owners, pa.string()))
    return spark.createDataFrame(table).join(F.broadcast(_comparison_frame(spark, chosen)), on="plan_id", how="inner")


def _measured_frame(
    spark: SparkSession, lake: Lake, chosen: Sequence[Comparison], plans: Mapping[str, StoredPlan]
) -> DataFrame:
    """What brokers measured that have reported since the run; with the traffic where a plan counts that."""
    rows = []
    for comparison in chosen:
        assert comparison.manifest is not None
        is_scaled = plans[comparison.run.plan_id].plan.settings.get("bandwidth_model") == "scaled"
        ended_at = parse_time(comparison.run.ended_at)
        for broker in _brokers_of(lake, comparison.manifest):
            if broker.reported_at is not None and broker.reported_at >= ended_at:
                rows.append((comparison.run.run_id, comparison.horizon_s, *_measured(broker, is_scaled)))
    names = ("run_id", "horizon_s", "broker_id", "cpu_measured", "throughput_in_measured", "throughput_out_measured")
    types = (pa.string(), pa.int64(), pa.string(), pa.int64(), pa.int64(), pa.int64())
    columns = list(zip(*rows, strict=True)) or [()] * len(names)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, types, strict=True)]
    return spark.createDataFrame(pa.table(dict(zip(names, arrays, strict=True))))


def _measured(broker: Broker, is_scaled: bool) -> tuple[str, int | None, int | None, int | None]:
    cpu = None if broker.cpu_usage_percent is None else whole(broker.cpu_usage_percent * MILLI)
    if not is_scaled:
        return broker.broker_id, cpu, None, None
    return (
        broker.broker_id,
        cpu,
        limit_units(Resource.BANDWIDTH_IN, broker.bandwidth_in_usage_kbps),
        limit_units(Resource.BANDWIDTH_OUT, broker.bandwidth_out_usage_kbps),
    )


def _brokers_of(lake: Lake, manifest: SnapshotManifest) -> list[Broker]:
    rows: list[Broker] = from_arrow(
        Broker, SnapshotStore(lake).read_table(manifest, "brokers"), lake.uri_of(manifest.tables["brokers"].path)
    )
    return rows


def _settled_at(moment: datetime, runs: Sequence[RunRecord]) -> datetime | None:
    """The end of the last run before a moment; None in the middle of a run."""
    settled_at = _EPOCH
    for run in runs:
        if run.dry_run:
            continue
        began_at, ended_at = parse_time(run.started_at), parse_time(run.ended_at)
        if began_at <= moment <= ended_at:
            return None
        if ended_at < moment:
            settled_at = max(settled_at, ended_at)
    return settled_at


def _sample_frame(
    spark: SparkSession, outside: Sequence[tuple[SnapshotManifest, datetime]], sample_s: float
) -> DataFrame:
    """The sample that each snapshot belongs to: the hours between two runs are numbered."""
    keys = [(settled_at, int((m.taken_at - _EPOCH).total_seconds() // sample_s)) for m, settled_at in outside]
    number_of = {key: number for number, key in enumerate(sorted(set(keys)))}
    return spark.createDataFrame(
        pa.table(
            {
                "snapshot_id": pa.array([manifest.snapshot_id for manifest, _ in outside], pa.string()),
                "sample": pa.array([number_of[key] for key in keys], pa.int64()),
                "settled_at": pa.array([settled_at for _, settled_at in outside], pa.timestamp("us", "UTC")),
            }
        )
    )


def _as_samples(cpu: pa.Table, messages: pa.Table) -> CpuSamples:
    keys = zip(cpu["sample"].to_pylist(), cpu["broker_id"].to_pylist(), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    places = zip(messages["sample"].to_pylist(), messages["broker_id"].to_pylist(), strict=True)
    return CpuSamples(
        cpu_share=cpu["cpu_share"].to_numpy().astype(np.float64),
        limit_percent=cpu["limit_percent"].to_numpy().astype(np.float64),
        row=np.array([row_of[place] for place in places], dtype=np.int64),
        namespace=messages["namespace"].to_pylist(),
        msg_rate_millis=messages["msg_rate_millis"].to_numpy().astype(np.float64),
    )
