"""Make a plan from a snapshot: gate, request, and one Spark application that runs the three jobs.

On a local master the application is this process; for other masters spark-submit starts it. Either way the request and
the answers are in the lake, so that work that was done is not done again.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenkeel import __version__
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.requests import RequestStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.gates.expected_checks import expect_of_snapshot
from evenkeel.model.canonical import digest, short_id
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.request import PlanRequest
from evenkeel.model.settings import Settings
from evenkeel.model.verdict import Subject
from evenkeel.stages.check import check_snapshot_on
from evenkeel.stages.learnt_costs import with_learnt_hand_overs
from evenkeel_spark.application import SparkApplication
from evenkeel_spark.submission import APPLICATION_NAME, is_local, submit

PLANNING_JOB = "plan_transfers"


def make_plan(
    lake: Lake,
    cluster: str,
    snapshot_id: str | None,
    strategy: str,
    settings: Settings,
    master: str,
    logs: Path,
    deadline_s: float,
    on_stage: Callable[[str], None],
) -> dict[str, Any]:
    """Judge a snapshot and plan from it; returns what the planning job answered (`read_planned`)."""
    # Names are looked up before anything slow starts. The newest snapshot is chosen once: while the gate judges it, a
    # newer one may come in.
    manifest = SnapshotStore(lake).load(cluster, snapshot_id)
    chosen = manifest.snapshot_id
    priced = with_learnt_hand_overs(lake, cluster, settings, manifest.taken_at)
    request = _describe_request(cluster, chosen, strategy, priced, uuid.uuid4().hex)
    log = logs / f"{request.request_id}.log"
    with SparkApplication(APPLICATION_NAME, master, log) as spark:
        on_stage("checking the snapshot")
        check_snapshot_on(spark, lake, cluster, chosen, settings).require_passed()
        RequestStore(lake).write(request)
        if is_local(master):
            # Java starts while Python imports what plans.
            spark.start()
            spark.run(lambda: _run_jobs(spark, lake, request, on_stage), log, deadline_s)
    if not is_local(master):
        # Not before the gate's own application has ended: it may hold every executor that the master has.
        on_stage("Spark: planning")
        submit(lake.uri, request.request_id, master, log, deadline_s)
    return read_planned(lake, request)


def request_plan(
    lake: Lake, cluster: str, snapshot_id: str | None, strategy: str, settings: Settings, request_id: str
) -> PlanRequest:
    """Put a request into the lake; a snapshot that its gate blocks, or that has none, is refused."""
    snapshots = SnapshotStore(lake)
    manifest = snapshots.load(cluster, snapshot_id)
    priced = with_learnt_hand_overs(lake, cluster, settings, manifest.taken_at)
    request = _describe_request(cluster, manifest.snapshot_id, strategy, priced, request_id)
    verdict = snapshots.read_verdict(manifest, settings)
    if verdict is None:
        raise RefusedError(f"snapshot {manifest.snapshot_id} has not passed its gate", "check the snapshot first")
    verdict.require_from(expect_of_snapshot(settings), Subject.SNAPSHOT, manifest.snapshot_id)
    verdict.require_passed()
    RequestStore(lake).write(request)
    return request


def load_request(lake: Lake, request_id: str, sha256: str) -> PlanRequest:
    """A request that was put into the lake earlier, proved to be the same."""
    request = RequestStore(lake).load(request_id)
    if request.sha256 != sha256:
        raise InputError(f"request {request_id} was changed since it was made", "make a new request")
    return request


def read_planned(lake: Lake, request: PlanRequest) -> dict[str, Any]:
    """What the planning job answered: plan_id, plan_uri, snapshot_id, seconds.

    The plan must be what was asked for: of this cluster and snapshot, by this strategy and with these settings.
    """
    answer = RequestStore(lake).read_answer(request, PLANNING_JOB)
    if answer is None:
        raise InputError(f"request {request.request_id} has no plan yet", "run its Spark jobs first")
    plan = PlanStore(lake).read_plan(str(answer.get("plan_id")))
    planned = (plan.cluster, plan.snapshot_id, plan.strategy, digest(plan.settings))
    if planned != (request.cluster, request.snapshot_id, request.strategy, digest(request.settings)):
        raise InputError(
            f"plan {short_id(plan.plan_id)} is not what request {request.request_id} asked for", "make a new request"
        )
    return answer


def _describe_request(
    cluster: str, snapshot_id: str, strategy: str, settings: Settings, request_id: str
) -> PlanRequest:
    return PlanRequest(
        request_id=request_id,
        cluster=cluster,
        snapshot_id=snapshot_id,
        strategy=strategy,
        settings=settings.to_json(),
        library_version=__version__,
    )


def _run_jobs(spark: SparkApplication, lake: Lake, request: PlanRequest, on_stage: Callable[[str], None]) -> None:
    from evenkeel_spark.jobs import run_jobs

    run_jobs(lake.uri, request.request_id, spark, lambda job: on_stage(f"Spark: {job}"))
