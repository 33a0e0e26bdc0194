"""The tasks that make a plan, from a snapshot or as the rollback of a run, judge it and describe it."""

from __future__ import annotations

import math
import re
import tempfile
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import get_current_context, task

from evenkeel.model.errors import RefusedError
from evenkeel.model.plan import StepKind
from evenkeel.orchestration import TaskOutput
from evenkeel.orchestration.clusters import DagCluster
from evenkeel.orchestration.connection import ClusterAccess, open_access
from evenkeel.orchestration.parameters import read_plan_wishes, read_run
from evenkeel.orchestration.plan_summary import summarise_plan
from evenkeel.orchestration.retry import READER, REQUESTER, SPARK_JOB
from evenkeel.orchestration.timetable import now
from evenkeel.orchestration.windows import describe_window, expire_with, find_window
from evenkeel_spark.submission import build_packages, describe_submission

if TYPE_CHECKING:
    from airflow.sdk import Context

    from evenkeel.adapters.lake.store import Lake
    from evenkeel.model.plan import Step
    from evenkeel.model.request import PlanRequest
    from evenkeel.model.settings import Settings

REQUEST_TIMEOUT = timedelta(minutes=5)
SNAPSHOT_TIMEOUT = timedelta(minutes=20)
SPARK_TIMEOUT = timedelta(hours=1)
GATE_TIMEOUT = timedelta(minutes=15)
ROLLBACK_TIMEOUT = timedelta(minutes=10)
MOST_NAMED = 5


@task(execution_timeout=SNAPSHOT_TIMEOUT, **READER)
def prepare_snapshot(cluster: str | None, request: TaskOutput) -> str:
    """Return a snapshot to plan from: the one that was asked for, a recent one, or a new one that passes its gate.

    A recent one is at most `max_snapshot_age_s` old and newer than the last run on the cluster.
    """
    from evenkeel.stages.check import check_snapshot
    from evenkeel.stages.request_check import find_recent_snapshot, require_fresh
    from evenkeel.stages.snapshot import take_snapshot

    access = open_access(cluster)
    wishes = read_plan_wishes(request["wishes"])
    if wishes.snapshot is not None:
        return require_fresh(access.lake, access.cluster, wishes.snapshot, access.settings)
    recent = find_recent_snapshot(access.lake, access.cluster, access.settings, now())
    if recent is not None:
        return recent
    manifest = take_snapshot(access.lake, access.connection, access.settings)
    check_snapshot(
        access.lake, access.cluster, manifest.snapshot_id, access.settings, access.spark_master
    ).require_passed()
    return manifest.snapshot_id


@task(execution_timeout=REQUEST_TIMEOUT, **REQUESTER)
def request_plan(cluster: str | None, request: TaskOutput, snapshot: TaskOutput) -> dict[str, str]:
    """Write the request for the Spark jobs: a snapshot, a strategy, the settings with what was asked for.

    It is named after the Dag run and the try, so a retry writes a new one instead of colliding with the old. A request
    that no job serves stays in the lake and does no harm. A plan for a window expires with it.
    """
    from evenkeel.adapters.lake.snapshots import SnapshotStore
    from evenkeel.stages.drain import only_what_must_move
    from evenkeel.stages.plan import request_plan as ask

    instance = get_current_context()["ti"]
    access = open_access(cluster)
    window, wishes = find_window(access, request), read_plan_wishes(request["wishes"])
    settings = wishes.over(access.settings)
    if wishes.is_relief_only:
        settings = only_what_must_move(settings)
    if window is not None:
        taken_at = SnapshotStore(access.lake).load(access.cluster, snapshot).taken_at
        settings = expire_with(settings, taken_at, window)
    request_id = name_request(instance.run_id, instance.try_number)
    made = ask(access.lake, access.cluster, snapshot, wishes.strategy, settings, request_id)
    return describe_request(access.lake, made)


def describe_request(lake: Lake, request: PlanRequest) -> dict[str, str]:
    """What later tasks need to know of a request; by its digest they notice if it was changed."""
    return {
        "lake": lake.uri,
        "request_id": request.request_id,
        "request_sha256": request.sha256,
        "snapshot_id": request.snapshot_id,
    }


def name_request(run_id: str, try_number: int) -> str:
    """Return a request id made of the Dag run and the try, safe to use in a path."""
    return f"{re.sub('[^-_.A-Za-z0-9]', '-', run_id)}-{try_number}"


class SubmitPlanOperator(SparkSubmitOperator):
    """Submits the one Spark application that serves a request to plan; only the connection says where it runs.

    The executors get Evenkeel's packages with the submission. In client mode a retry submits again, and finds what the
    previous try left in the lake.
    """

    def __init__(self, request: TaskOutput, **options: Any) -> None:
        submission = describe_submission(request["lake"], request["request_id"])
        super().__init__(**submission.operator_arguments(), **options)

    def execute(self, context: Context) -> None:
        with tempfile.TemporaryDirectory(prefix="evenkeel-submit-") as folder:
            self.py_files = str(build_packages(Path(folder)))
            super().execute(context)


def submit_plan(cluster: DagCluster, request: TaskOutput) -> SubmitPlanOperator:
    """Return the task that makes the plan of a request."""
    return SubmitPlanOperator(
        task_id="make_plan",
        request=request,
        conn_id=cluster.spark_connection,
        execution_timeout=SPARK_TIMEOUT,
        **SPARK_JOB,
    )


@task(execution_timeout=GATE_TIMEOUT, **READER)
def check_plan(cluster: str | None, request: TaskOutput, planned: TaskOutput) -> dict[str, Any]:
    """Judge the plan that the jobs made, and describe it for the approval."""
    from evenkeel.stages.plan import load_request, read_planned

    access = open_access(cluster)
    made = load_request(access.lake, planned["request_id"], planned["request_sha256"])
    return judge(access, request, read_planned(access.lake, made)["plan_id"])


def judge(
    access: ClusterAccess, request: TaskOutput, plan_id: str, warnings: Sequence[str] = (), headline: str = ""
) -> dict[str, Any]:
    """Judge a plan and describe it; a failed critical check is an error, and so is a plan that was applied already."""
    from evenkeel.adapters.lake.plans import PlanStore
    from evenkeel.stages.check import check_plan as check
    from evenkeel.stages.drain import read_marks
    from evenkeel.stages.refuse import describe_last_refusal
    from evenkeel.stages.request_check import require_not_applied

    verdict = check(access.lake, plan_id, access.spark_master, access.approval_rules)
    verdict.require_passed()
    require_not_applied(access.lake, plan_id, access.cluster)
    stored = PlanStore(access.lake).load(plan_id)
    window, marks = find_window(access, request), read_marks(access.connection)
    found = [*warnings, *(check.detail for check in verdict.warnings)]
    found += [f"{broker} is marked for draining by {directive}" for broker, directive in marks.items()]
    if window is not None:
        found += describe_window(window, len(stored.steps), estimate_seconds(stored.steps, access.settings))
    if request["break_glass"]:
        found.insert(0, f"outside every maintenance window: {request['break_glass']}")
    if (refusal := describe_last_refusal(access.lake, access.cluster)) is not None:
        found.append(refusal)
    return summarise_plan(stored, found, list(marks), headline)


def estimate_seconds(steps: Sequence[Step], settings: Settings) -> float:
    """About how long a plan takes, by the hand-over times of the settings: steps in flight together, waves in turn."""
    hand_over_ms = {StepKind.TRANSFER: settings.transfer_hand_over_ms}
    waves: dict[int, list[int]] = {}
    for step in steps:
        waves.setdefault(step.wave, []).append(hand_over_ms.get(StepKind(step.kind), settings.unload_hand_over_ms))
    return sum(max(math.ceil(sum(times) / settings.in_flight_steps), max(times)) for times in waves.values()) / 1000


@task.short_circuit(ignore_downstream_trigger_rules=True, execution_timeout=REQUEST_TIMEOUT, **READER)
def has_steps(plan: TaskOutput, request: TaskOutput) -> bool:
    """Stop with success if the plan has no steps, or if only a plan was asked for."""
    return any(plan["step_counts"].values()) and not read_plan_wishes(request["wishes"]).is_plan_only


@task(execution_timeout=ROLLBACK_TIMEOUT, **READER)
def plan_rollback(cluster: str | None, request: TaskOutput) -> dict[str, Any]:
    """Plan, from the journal and a new snapshot, to undo a run; a run that was already rolled back is refused."""
    from evenkeel.stages.rollback import plan_rollback as plan

    run = read_run(request["wishes"])
    access = open_access(cluster)
    stored = plan(access.lake, run, access.connection, access.settings)
    left = [f"{row.bundle} stays: {row.detail}" for row in stored.rejections]
    if not stored.steps:
        raise RefusedError(
            f"nothing of run {run} can be rolled back ({'; '.join(left[:MOST_NAMED])})", "there is nothing to do"
        )
    return {"plan_id": stored.plan_id, "left": left, "undone": len(stored.steps)}


@task(execution_timeout=GATE_TIMEOUT, **READER)
def check_rollback(cluster: str | None, request: TaskOutput, made: TaskOutput) -> dict[str, Any]:
    """Judge the rollback plan and describe it for the approval; bundles that stay become warnings."""
    named, left = made["left"][:MOST_NAMED], len(made["left"])
    more = [f"{left - MOST_NAMED} more bundles stay"] if left > MOST_NAMED else []
    headline = f"Undo run {read_run(request['wishes'])}: {made['undone']:,} of {made['undone'] + left:,} steps"
    return judge(open_access(cluster), request, made["plan_id"], [*named, *more], headline)
