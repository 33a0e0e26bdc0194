"""Tasks that make a plan from a snapshot, and judge it."""

from __future__ import annotations

import os
import re
import sys
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import get_current_context, task

from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings
from evenkeel.orchestration.connection import SPARK_CONNECTION_ID, EvenkeelHook, read_spark_master
from evenkeel.orchestration.plan_summary import summarise_plan
from evenkeel.orchestration.retry import READER, SPARK_JOB

if TYPE_CHECKING:
    from evenkeel.adapters.lake import Lake

REQUEST_TIMEOUT = timedelta(minutes=5)
SPARK_TIMEOUT = timedelta(hours=1)
GATE_TIMEOUT = timedelta(minutes=15)


@task(execution_timeout=REQUEST_TIMEOUT, **READER)
def request_plan() -> dict[str, str]:
    """Write down what the Spark jobs are to plan: a snapshot that passed its gate, a strategy, the settings.

    The request is named after the Dag run and the try, so a retry asks anew instead of colliding with its own
    earlier word; a request that nobody serves stays in the lake and does no harm.
    """
    from evenkeel.stages.plan import request_plan as request

    context = get_current_context()
    params, instance = context["params"], context["ti"]
    access = EvenkeelHook().get_conn()
    snapshot_id = params["snapshot"] or find_gated_snapshot(access.lake, access.cluster, access.settings)
    request_id = name_request(instance.run_id, instance.try_number)
    request(access.lake, access.cluster, snapshot_id, params["strategy"], access.settings, request_id)
    return {"lake": access.lake.uri, "request_id": request_id, "snapshot_id": snapshot_id}


def find_gated_snapshot(lake: Lake, cluster: str, settings: Settings) -> str:
    """The newest snapshot of a cluster that passed its gate; a newer one may still be judged, or be blocked."""
    from evenkeel.adapters.snapshots import SnapshotStore

    snapshots = SnapshotStore(lake)
    for snapshot_id in reversed(snapshots.ids(cluster)):
        verdict = snapshots.read_verdict(snapshots.load(cluster, snapshot_id), settings)
        if verdict is not None and verdict.passed:
            return snapshot_id
    raise InputError(
        f"no snapshot of cluster {cluster!r} in {lake.uri} has passed its gate",
        "run the Dag collect_load and look at its gate",
    )


def name_request(run_id: str, try_number: int) -> str:
    """A request's id from the Dag run and the try, with what a path must not hold replaced."""
    return f"{re.sub('[^-_.A-Za-z0-9]', '-', run_id)}-{try_number}"


def submit_spark_job(job: Path, request: Any) -> SparkSubmitOperator:
    """A task that submits one job file of the repository for a request; the task is named after the job.

    Only the connection says where it runs. On a cluster, the executors must have Evenkeel installed. In client mode a
    retry submits again.
    """
    return SparkSubmitOperator(
        task_id=job.stem,
        name=f"evenkeel-{job.stem}",
        application=str(job),
        application_args=["--lake", request["lake"], "--request", request["request_id"]],
        conn_id=SPARK_CONNECTION_ID,
        # Without it Spark's Python workers take whatever python3 comes first on the path.
        env_vars={"PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable)},
        execution_timeout=SPARK_TIMEOUT,
        **SPARK_JOB,
    )


@task(execution_timeout=GATE_TIMEOUT, **READER)
def check_plan(request: dict[str, str]) -> dict[str, Any]:
    """Judge the plan that the jobs made, and sum it up for the person who is asked."""
    from evenkeel.stages.plan import read_planned

    lake = EvenkeelHook().get_conn().lake
    return judge(lake, read_planned(lake, request["request_id"])["plan_id"])


def judge(lake: Lake, plan_id: str) -> dict[str, Any]:
    """Judge a plan of the lake and sum it up; a critical finding is an error."""
    from evenkeel.adapters.plans import PlanStore
    from evenkeel.stages.check import check_plan as check

    verdict = check(lake, plan_id, read_spark_master())
    verdict.require_passed()
    return summarise_plan(PlanStore(lake).load(plan_id), [check.detail for check in verdict.warnings])


@task.short_circuit(ignore_downstream_trigger_rules=True, execution_timeout=REQUEST_TIMEOUT, **READER)
def has_steps(plan: dict[str, Any]) -> bool:
    """End the run with success where the plan finds nothing to do."""
    return any(plan["step_counts"].values())
