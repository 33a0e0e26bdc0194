"""Plan which bundles move where, pool by pool: `spark-submit plan_transfers.py --lake URI --request ID`."""

from __future__ import annotations

import sys
from typing import Any

from pyspark.sql import DataFrame

from evenkeel import __version__
from evenkeel.adapters.plans import PlanStore
from evenkeel.model.load import SplitCandidate
from evenkeel.planning.assembly import PlanContext, assemble
from evenkeel.planning.explaining.policy_findings import explain_policies
from evenkeel.planning.horizon import horizon_hours
from evenkeel.planning.pools import live_broker_ids
from evenkeel_spark.artifacts import CANDIDATES, read_load_tables
from evenkeel_spark.cluster import Cluster, read_cluster
from evenkeel_spark.decisions import log_decisions
from evenkeel_spark.io import FrameStore, read_snapshot_table
from evenkeel_spark.job import JobContext, main
from evenkeel_spark.peers import find_counterfactuals, with_decision_of
from evenkeel_spark.placed_loads import require_legal
from evenkeel_spark.planning import solve_pools
from evenkeel_spark.transforms.planned_rates import planned_rates
from evenkeel_spark.transforms.planning_loads import planning_loads
from evenkeel_spark.transforms.transfers import PlanningInputs


def plan_transfers(job: JobContext) -> dict[str, Any]:
    profile_id = job.answer_of("profile_load")["profile_id"]
    candidates_id = job.answer_of("find_split_candidates")["candidates_id"]
    cluster = read_cluster(job.lake, job.request.cluster, job.request.snapshot_id)

    # Asked for many times; what a session keeps ends with its job.
    loads = read_loads(job, cluster, profile_id).persist()
    inputs = PlanningInputs(cluster.brokers, cluster.policies, job.settings, read_candidates(job, candidates_id))
    topics = read_snapshot_table(job.spark, job.lake, cluster.manifest, "topics")
    solved = solve_pools(loads, with_decision_of(job.request.strategy, loads, inputs), topics)

    context = PlanContext(
        cluster=job.request.cluster,
        load_manager=str(cluster.manifest.load_manager),
        snapshot_id=job.request.snapshot_id,
        taken_at=cluster.manifest.taken_at,
        profile_id=profile_id,
        candidates_id=candidates_id,
        strategy=job.request.strategy,
        settings=job.settings,
        policy_versions=cluster.policy_versions,
        library_version=__version__,
        counterfactual=find_counterfactuals(loads, inputs, solved.bundles),
        findings=explain_policies(inputs.policies, live_broker_ids(inputs.brokers), solved.namespaces),
    )
    planned = assemble(solved.plans, context)
    require_legal(loads, topics, planned.steps, inputs)
    plan_uri = PlanStore(job.lake).write(planned.plan, planned.steps, planned.rejections, planned.brokers)
    return {
        "plan_id": planned.plan.plan_id,
        "plan_uri": plan_uri,
        "snapshot_id": job.request.snapshot_id,
        "metrics": log_decisions(solved, planned),
        "seconds": {"solve": round(solved.seconds, 3), "total": job.seconds()},
    }


def read_loads(job: JobContext, cluster: Cluster, profile_id: str) -> DataFrame:
    """The load that is planned for, bundle by bundle."""
    hours = horizon_hours(cluster.manifest.taken_at, job.settings.plan_expires_after_s)
    rates = planned_rates(read_load_tables(job.spark, job.lake, profile_id), hours, job.settings)
    return rates.transform(planning_loads, cluster.brokers, job.settings)


def read_candidates(job: JobContext, candidates_id: str) -> list[SplitCandidate]:
    """The bundles to split by PIP-192, ranked; they are few."""
    candidates = FrameStore(job.lake, CANDIDATES).read(job.spark, candidates_id, "split_candidates", SplitCandidate)
    return [SplitCandidate(**row.asDict()) for row in candidates.orderBy("rank").collect()]


if __name__ == "__main__":
    sys.exit(main("plan_transfers", plan_transfers))
