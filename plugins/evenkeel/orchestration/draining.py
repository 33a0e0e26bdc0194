"""The tasks of `drain_broker` and `undrain_broker`: mark brokers, request a plan, prove that they are empty, unmark."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from evenkeel.model.errors import RefusedError
from evenkeel.orchestration import TaskOutput
from evenkeel.orchestration.connection import open_access
from evenkeel.orchestration.parameters import KEEP_MARKS, REASON, read_brokers, read_reason
from evenkeel.orchestration.planning import describe_request, judge, name_request
from evenkeel.orchestration.retry import READER, REQUESTER, WRITER

MARK_TIMEOUT = timedelta(minutes=5)
REQUEST_TIMEOUT = timedelta(minutes=20)
GATE_TIMEOUT = timedelta(minutes=15)
MOST_NAMED = 3


@task(execution_timeout=MARK_TIMEOUT, **WRITER)
def mark_brokers(cluster: str | None, request: TaskOutput) -> list[str]:
    """Mark the brokers for draining: from now on, every plan empties them and moves nothing to them."""
    from evenkeel.stages.drain import mark_brokers as mark

    brokers, who = read_brokers(request["wishes"]), request["requested_by"] or "Airflow"
    mark(open_access(cluster).connection, brokers, who, f"{read_reason(REASON, request['wishes'])} {_tag()}".strip())
    return brokers


def _tag() -> str:
    """What ends the reason of a mark that this Dag run has set."""
    return f"[Dag run {get_current_context()['ti'].run_id}]"


@task(execution_timeout=REQUEST_TIMEOUT, **REQUESTER)
def request_drain(cluster: str | None, marks: TaskOutput) -> dict[str, str]:
    """Snapshot the cluster with its marks, judge the snapshot, and write the request for the Spark jobs."""
    from evenkeel.stages.drain import request_drain as request

    instance = get_current_context()["ti"]
    access = open_access(cluster)
    request_id = name_request(instance.run_id, instance.try_number)
    made = request(access.lake, access.connection, access.settings, access.spark_master, request_id)
    return describe_request(access.lake, made)


@task(execution_timeout=GATE_TIMEOUT, **READER)
def check_drain(cluster: str | None, request: TaskOutput, planned: TaskOutput) -> dict[str, Any]:
    """Judge the plan that the jobs made, and describe it for the approval by the brokers that it empties."""
    from evenkeel.adapters.lake.plans import PlanStore
    from evenkeel.stages.plan import load_request, read_planned

    access = open_access(cluster)
    made = load_request(access.lake, planned["request_id"], planned["request_sha256"])
    plan_id = read_planned(access.lake, made)["plan_id"]
    brokers, steps = read_brokers(request["wishes"]), PlanStore(access.lake).load(plan_id).steps
    leaving = sum(step.source in brokers for step in steps)
    more = f" and {len(brokers) - MOST_NAMED} more" if len(brokers) > MOST_NAMED else ""
    headline = f"Empty {', '.join(brokers[:MOST_NAMED])}{more}: {leaving:,} of {len(steps):,} steps"
    return judge(access, request, plan_id, headline=headline)


@task.short_circuit(ignore_downstream_trigger_rules=True, execution_timeout=MARK_TIMEOUT, **READER)
def has_steps_or_is_empty(cluster: str | None, plan: TaskOutput, request: TaskOutput) -> bool:
    """Stop with success if the brokers are already empty; fail if bundles remain that cannot be moved."""
    if any(plan["step_counts"].values()):
        return True
    require_empty(cluster, plan["snapshot_id"], read_brokers(request["wishes"]))
    return False


@task(execution_timeout=MARK_TIMEOUT, **READER)
def verify_empty(cluster: str | None, verification: TaskOutput, request: TaskOutput) -> dict[str, Any]:
    """Check in the snapshot taken by the verification that the brokers own no bundles."""
    brokers = read_brokers(request["wishes"])
    require_empty(cluster, verification["snapshot_id"], brokers)
    return {"brokers": brokers, "empty": True}


@task(execution_timeout=MARK_TIMEOUT, **WRITER)
def remove_marks(cluster: str | None, request: TaskOutput, plan: TaskOutput) -> list[str]:
    """Remove the marks that this run has set if it applied nothing, unless they are to be kept.

    Once a step was begun the brokers are being emptied, so the marks stay until `undrain_broker` removes them.
    """
    from evenkeel.stages.drain import read_marks, unmark_brokers, was_begun

    connection = open_access(cluster).connection
    if request["wishes"][KEEP_MARKS] or (plan is not None and was_begun(connection, plan["plan_id"])):
        return []
    own = [broker for broker, directive in read_marks(connection).items() if directive.reason.endswith(_tag())]
    return unmark_brokers(connection, own) if own else []


@task(execution_timeout=MARK_TIMEOUT, **WRITER)
def unmark_brokers(cluster: str | None, request: TaskOutput) -> dict[str, list[str]]:
    """Remove the brokers' marks, so that they may own bundles again; says which of them had one."""
    from evenkeel.stages.drain import unmark_brokers as unmark

    brokers = read_brokers(request["wishes"])
    return {"brokers": brokers, "unmarked": unmark(open_access(cluster).connection, brokers)}


def require_empty(cluster: str | None, snapshot_id: str, brokers: list[str]) -> None:
    """Raise RefusedError if any of the brokers owns a bundle in a snapshot."""
    from evenkeel.stages.drain import find_leftovers

    access = open_access(cluster)
    leftovers = find_leftovers(access.lake, access.cluster, snapshot_id, brokers)
    if leftovers:
        raise RefusedError(
            f"the brokers still own {len(leftovers)} bundles, such as {leftovers[0]}",
            "find the reason in the plan's rejections, fix it, then trigger the Dag again",
        )
