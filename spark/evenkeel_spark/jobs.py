"""The three jobs that make a plan, in their order: `profile_load`, `find_split_candidates`, `plan_transfers`.

Each reads what the one before left in the lake, and leaves its answer there (`evenkeel_spark.job`). One Spark
application runs all three: the driver program `spark/jobs/plan.py`, or the process of the command line.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from evenkeel import __version__
from evenkeel.adapters.lake.learnt import CalibrationStore
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake, to_arrow
from evenkeel.model.load import MILLI, SplitCandidate
from evenkeel.model.setting_fields import AUTO
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState, SnapshotManifest
from evenkeel.planning.cluster.assembly import PlanContext, assemble
from evenkeel.planning.explaining.policy_findings import explain_policies
from evenkeel.planning.problem.loads import horizon_hours
from evenkeel.planning.problem.pools import live_broker_ids
from evenkeel.pulsar_rules.auto_thresholds import ClusterTotals, resolve_auto
from evenkeel.pulsar_rules.broker_load import ResourceUsage, ResourceUsages, weighted_usage_with_heap
from evenkeel_spark.artifacts import CANDIDATES, PROFILES, FrameStore, candidates_id, profile_id
from evenkeel_spark.cluster_loads import ClusterLoads
from evenkeel_spark.driver_loads import MOST_TOPICS_IN_PROCESS, DriverLoads, read_profile
from evenkeel_spark.history import Cluster, History, find_history, read_cluster
from evenkeel_spark.job import Job, JobContext, run
from evenkeel_spark.lake_frames import (
    read_bundle_history,
    read_cpu_calibration,
    read_load_tables,
    read_snapshot_table,
)
from evenkeel_spark.planning import (
    PlanningInputs,
    find_counterfactuals,
    log_decisions,
    require_legal,
    solve_pools,
    with_decision_of,
)
from evenkeel_spark.session import OpenSession
from evenkeel_spark.spark_loads import SparkLoads
from evenkeel_spark.transforms.columns import with_integer_loads
from evenkeel_spark.transforms.planning_loads import planned_rates, planning_loads
from evenkeel_spark.transforms.profiles import bundle_profiles, hourly_peaks
from evenkeel_spark.transforms.split_candidates import split_candidates

# The driver plans this many bundles in the time that Spark takes to start its Python workers.
MOST_BUNDLES_ON_DRIVER = 5_000


def run_jobs(lake_uri: str, request_id: str, session: OpenSession, on_job: Callable[[str], None]) -> dict[str, Any]:
    """Run all jobs of a request in one Spark application; returns the answer of the last."""
    answer: dict[str, Any] = {}
    for name, job in JOBS.items():
        on_job(name)
        answer = run(name, job, lake_uri, request_id, session)
    return answer


def profile_load(job: JobContext) -> dict[str, Any]:
    """Profile the load of each bundle over the history."""
    history = find_history(job.lake, job.request.cluster, job.request.snapshot_id, job.settings.history_days)
    calibration_id = None
    if job.settings.use_learnt_costs:
        calibration_id = CalibrationStore(job.lake).find(job.request.cluster, history.now.taken_at)
    new_id = profile_id(history, calibration_id)
    store = FrameStore(job.lake, PROFILES)
    manifest = store.find(new_id)
    if manifest is None:
        bundle_history = read_bundle_history(job.spark, job.lake, history)
        calibration = read_cpu_calibration(job.spark, job.lake, job.request.cluster, calibration_id)
        profiles = bundle_history.transform(bundle_profiles, calibration)
        peaks = bundle_history.transform(hourly_peaks)
        manifest = store.write(new_id, {"bundle_profiles": profiles, "hourly_peaks": peaks})
    return {
        "profile_id": new_id,
        "profile_uri": store.uri_of(new_id),
        "rows": manifest.tables["bundle_profiles"].rows,
        "snapshots": len(history.manifests),
        "cpu_calibration_id": calibration_id,
        "seconds": job.seconds(),
    }


def find_split_candidates(job: JobContext) -> dict[str, Any]:
    """Find the bundles to split by the conditions of PIP-192."""
    history = find_history(job.lake, job.request.cluster, job.request.snapshot_id, job.settings.history_days)
    new_id = candidates_id(history, job.settings)
    store = FrameStore(job.lake, CANDIDATES)
    manifest = store.find(new_id)
    if manifest is None:
        rows = _find_candidates(job, history)
        manifest = store.write(new_id, {"split_candidates": to_arrow(SplitCandidate, rows)})
    return {
        "candidates_id": new_id,
        "candidates_uri": store.uri_of(new_id),
        "rows": manifest.tables["split_candidates"].rows,
        "snapshots": len(history.manifests),
        "seconds": job.seconds(),
    }


def plan_transfers(job: JobContext) -> dict[str, Any]:
    """Plan which bundles move where, pool by pool."""
    profile = job.answer_of("profile_load")["profile_id"]
    candidates = job.answer_of("find_split_candidates")["candidates_id"]
    cluster = read_cluster(job.lake, job.request.cluster, job.request.snapshot_id)
    loads = _read_loads(job, cluster, profile)
    inputs = PlanningInputs(cluster.brokers, cluster.policies, job.settings, _read_candidates(job.lake, candidates))
    solved = solve_pools(loads, with_decision_of(job.request.strategy, loads, inputs))
    context = PlanContext(
        cluster=job.request.cluster,
        load_manager=str(cluster.manifest.load_manager),
        snapshot_id=job.request.snapshot_id,
        taken_at=cluster.manifest.taken_at,
        profile_id=profile,
        candidates_id=candidates,
        strategy=job.request.strategy,
        settings=job.settings,
        policy_versions=cluster.policy_versions,
        anti_affinity=inputs.policies.anti_affinity,
        library_version=__version__,
        counterfactual=find_counterfactuals(loads, inputs, solved.bundles),
        findings=explain_policies(inputs.policies, live_broker_ids(inputs.brokers), solved.namespaces),
    )
    planned = assemble(solved.plans, context)
    require_legal(loads, planned.steps, inputs)
    plan_uri = PlanStore(job.lake).write(planned.plan, planned.steps, planned.rejections, planned.brokers)
    return {
        "plan_id": planned.plan.plan_id,
        "plan_uri": plan_uri,
        "snapshot_id": job.request.snapshot_id,
        "metrics": log_decisions(solved, planned),
        "seconds": {"solve": round(solved.seconds, 3), "total": job.seconds()},
    }


JOBS: Mapping[str, Job] = {job.__name__: job for job in (profile_load, find_split_candidates, plan_transfers)}
"""The jobs of a plan by name, in the order in which they run."""


def _find_candidates(job: JobContext, history: History) -> list[SplitCandidate]:
    """The candidates of this cycle, which are few, each with its best cut."""
    cluster = read_cluster(job.lake, job.request.cluster, job.request.snapshot_id)
    policies = cluster.policies
    # Two children count twice, and an anti-affinity group must not get more crowded.
    left_whole = {*policies.excluded_namespaces, *job.settings.shedding_excluded_namespaces, *policies.anti_affinity}
    bundle_history = read_bundle_history(job.spark, job.lake, history)
    candidates = (
        bundle_history.transform(split_candidates, _resolve_thresholds(job, history, cluster), left_whole)
        .orderBy("rank")
        .collect()
    )
    topics = read_snapshot_table(job.spark, job.lake, history.now, "topics")
    cuts = SparkLoads(bundle_history, topics).find_cuts({row["bundle"]: None for row in candidates})
    return [SplitCandidate(**row.asDict(), **asdict(cuts[row["bundle"]])) for row in candidates]


def _read_candidates(lake: Lake, wanted_id: str) -> list[SplitCandidate]:
    """The bundles to split by PIP-192, ranked; they are few."""
    rows = FrameStore(lake, CANDIDATES).read_table(wanted_id, "split_candidates").to_pylist()
    return sorted((SplitCandidate(**row) for row in rows), key=lambda candidate: candidate.rank)


def _read_loads(job: JobContext, cluster: Cluster, profile: str) -> ClusterLoads:
    """The load that is planned for, bundle by bundle: held by the driver where the cluster is small."""
    hours = horizon_hours(cluster.manifest.taken_at, job.settings.plan_expires_after_s)
    if _fits_driver(cluster.manifest):
        topics = SnapshotStore(job.lake).read_table(cluster.manifest, "topics")
        return DriverLoads.of_profile(read_profile(job.lake, profile), topics, cluster.brokers, hours, job.settings)
    rates = planned_rates(read_load_tables(job.spark, job.lake, profile), hours, job.settings)
    # Asked for many times; what a session keeps ends with its application.
    loads = rates.transform(planning_loads, cluster.brokers, job.settings).persist()
    return SparkLoads(loads, read_snapshot_table(job.spark, job.lake, cluster.manifest, "topics"))


def _fits_driver(manifest: SnapshotManifest) -> bool:
    """Whether the driver can hold a snapshot: few bundles may have many topics, all of which come with them."""
    tables = manifest.tables
    return tables["bundles"].rows <= MOST_BUNDLES_ON_DRIVER and tables["topics"].rows <= MOST_TOPICS_IN_PROCESS


def _resolve_thresholds(job: JobContext, history: History, cluster: Cluster) -> Settings:
    """The settings with numbers for the thresholds that are on auto."""
    if AUTO not in job.settings.to_json().values():
        return job.settings
    return resolve_auto(job.settings, _add_up(job, history, cluster))


def _add_up(job: JobContext, history: History, cluster: Cluster) -> ClusterTotals:
    """What a cluster carries in all, in integers; the usage of brokers is the mean over the Active ones."""
    from pyspark.sql import functions as F

    sums = ("topics", "producers", "consumers", "msg_rate_millis", "throughput_in", "throughput_out")
    (row,) = (
        read_snapshot_table(job.spark, job.lake, history.now, "bundles")
        .transform(with_integer_loads)
        .agg(F.count("*").alias("bundles"), *(F.coalesce(F.sum(name), F.lit(0)).alias(name) for name in sums))
        .collect()
    )
    usages = [
        weighted_usage_with_heap(_usages(broker), job.settings)
        for broker in cluster.brokers
        if broker.state == BrokerState.ACTIVE
    ]
    return ClusterTotals(
        brokers=len(usages),
        bundles=row["bundles"],
        topics=row["topics"],
        sessions=row["producers"] + row["consumers"],
        msg_rate_per_s=row["msg_rate_millis"] / MILLI,
        throughput_bytes_per_s=float(row["throughput_in"] + row["throughput_out"]),
        mean_weighted_usage=sum(usages) / len(usages) if usages else 0.0,
    )


def _usages(broker: Broker) -> ResourceUsages:
    return ResourceUsages(
        cpu=_usage(broker.cpu_usage_percent, broker.cpu_limit_percent),
        memory=_usage(broker.memory_usage_mib, broker.memory_limit_mib),
        direct_memory=_usage(broker.direct_memory_usage_mib, broker.direct_memory_limit_mib),
        bandwidth_in=_usage(broker.bandwidth_in_usage_kbps, broker.bandwidth_in_limit_kbps),
        bandwidth_out=_usage(broker.bandwidth_out_usage_kbps, broker.bandwidth_out_limit_kbps),
    )


def _usage(usage: float | None, limit: float | None) -> ResourceUsage:
    return ResourceUsage(usage or 0.0, limit or 0.0)
