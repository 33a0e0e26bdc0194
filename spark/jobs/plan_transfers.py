"""Plan which bundles move where, pool by pool: `spark-submit plan_transfers.py --lake URI --request ID`."""

from __future__ import annotations

import sys
from typing import Any

from evenkeel import __version__
from evenkeel.adapters.plans import PlanStore
from evenkeel.model.load import BundleProfile, SplitCandidate
from evenkeel.planning.assembly import PlanContext, assemble
from evenkeel_spark.artifacts import CANDIDATES, PROFILES
from evenkeel_spark.cluster import read_cluster
from evenkeel_spark.io import FrameStore
from evenkeel_spark.job import JobContext, main
from evenkeel_spark.planning import solve_pools
from evenkeel_spark.transforms.transfers import PlanningInputs


def plan_transfers(job: JobContext) -> dict[str, Any]:
    profile_id = job.answer_of("profile_load")["profile_id"]
    candidates_id = job.answer_of("find_split_candidates")["candidates_id"]
    cluster = read_cluster(job.lake, job.request.cluster, job.request.snapshot_id)

    profiles = FrameStore(job.lake, PROFILES).read(job.spark, profile_id, "bundle_profiles", BundleProfile)
    solved = solve_pools(job.spark, profiles, PlanningInputs(cluster.brokers, cluster.policies, job.settings))

    candidates = FrameStore(job.lake, CANDIDATES).read(job.spark, candidates_id, "split_candidates", SplitCandidate)
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
        split_candidates=[SplitCandidate(**row.asDict()) for row in candidates.orderBy("rank").collect()],
        library_version=__version__,
    )
    planned = assemble(solved.plans, context)
    plan_uri = PlanStore(job.lake).write(planned.plan, planned.steps, planned.rejections, planned.brokers)
    return {
        "plan_id": planned.plan.plan_id,
        "plan_uri": plan_uri,
        "snapshot_id": job.request.snapshot_id,
        "seconds": {"solve": round(solved.seconds, 3), "total": job.seconds()},
    }


if __name__ == "__main__":
    sys.exit(main("plan_transfers", plan_transfers))
