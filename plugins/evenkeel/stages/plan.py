"""Ask for a plan, run the Spark jobs that make it, and read what they answered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from evenkeel import __version__
from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import RequestStore
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.request import PlanRequest
from evenkeel.model.settings import Settings

PLANNING_JOB = "plan_transfers"


def request_plan(
    lake: Lake, cluster: str, snapshot_id: str | None, strategy: str, settings: Settings, request_id: str
) -> PlanRequest:
    """Put a request into the lake; a snapshot that its gate blocks, or that has none, is refused."""
    snapshots = SnapshotStore(lake)
    manifest = snapshots.load(cluster, snapshot_id)
    verdict = snapshots.read_verdict(manifest, settings)
    if verdict is None:
        raise RefusedError(f"snapshot {manifest.snapshot_id} has not passed its gate", "check the snapshot first")
    verdict.require_passed()
    request = PlanRequest(
        request_id=request_id,
        cluster=cluster,
        snapshot_id=manifest.snapshot_id,
        strategy=strategy,
        settings=settings.to_json(),
        library_version=__version__,
    )
    RequestStore(lake).write(request)
    return request


def run_jobs(
    lake: Lake, request: PlanRequest, master: str, logs: Path, deadline_s: float, on_job: Callable[[str], None]
) -> dict[str, Any]:
    """Run the three jobs one after the other by spark-submit, and answer what the last one said."""
    from evenkeel_spark.submit import JOBS, submit

    for job in JOBS:
        on_job(job)
        submit(job, lake.uri, request.request_id, master, logs / f"{request.request_id}-{job}.log", deadline_s)
    return read_planned(lake, request.request_id)


def read_planned(lake: Lake, request_id: str) -> dict[str, Any]:
    """What the planning job answered: plan_id, plan_uri, snapshot_id, seconds."""
    answer = RequestStore(lake).read_answer(request_id, PLANNING_JOB)
    if answer is None:
        raise InputError(f"request {request_id} has no plan yet", "run its Spark jobs first")
    return answer
