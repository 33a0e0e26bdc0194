"""Tasks that empty brokers for maintenance."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from evenkeel.model.errors import InputError, RefusedError
from evenkeel.orchestration.connection import EvenkeelHook, read_spark_master
from evenkeel.orchestration.planning import name_request
from evenkeel.orchestration.retry import READER, WRITER

MARK_TIMEOUT = timedelta(minutes=5)
REQUEST_TIMEOUT = timedelta(minutes=20)


@task(execution_timeout=MARK_TIMEOUT, **WRITER)
def mark_brokers() -> list[str]:
    """Mark the brokers for draining, so that every plan from now on empties them and gives them nothing.

    The marks stay, whatever becomes of this run: `evenkeel drain --undo` takes them away.
    """
    from evenkeel.stages.drain import mark_brokers as mark

    context = get_current_context()
    brokers = sorted(set(context["params"]["brokers"]))
    if not brokers:
        raise InputError("no broker is named", "give the parameter brokers at least one id, host:port")
    mark(EvenkeelHook().get_conn().connection, brokers, "Airflow", f"Dag run {context['ti'].run_id}")
    return brokers


@task(execution_timeout=REQUEST_TIMEOUT, **READER)
def request_drain(brokers: list[str]) -> dict[str, str]:
    """Snapshot the cluster with its marks, judge that, and write down what the Spark jobs are to plan."""
    from evenkeel.stages.drain import request_drain as request

    instance = get_current_context()["ti"]
    access = EvenkeelHook().get_conn()
    request_id = name_request(instance.run_id, instance.try_number)
    made = request(access.lake, access.connection, access.settings, read_spark_master(), request_id)
    return {"lake": access.lake.uri, "request_id": request_id, "snapshot_id": made.snapshot_id}


@task.short_circuit(ignore_downstream_trigger_rules=True, execution_timeout=MARK_TIMEOUT, **READER)
def has_steps_or_is_empty(plan: dict[str, Any], brokers: list[str]) -> bool:
    """End the run with success where the brokers are empty already; bundles that cannot leave are an error."""
    if any(plan["step_counts"].values()):
        return True
    require_empty(plan["snapshot_id"], brokers)
    return False


@task(execution_timeout=MARK_TIMEOUT, **READER)
def verify_empty(verification: dict[str, Any], brokers: list[str]) -> dict[str, Any]:
    """See in the snapshot of the verification that nothing is left on the brokers."""
    require_empty(verification["snapshot_id"], brokers)
    return {"brokers": brokers, "empty": True}


def require_empty(snapshot_id: str, brokers: list[str]) -> None:
    """Refuse to call brokers empty that own bundles by a snapshot."""
    from evenkeel.stages.drain import find_leftovers

    access = EvenkeelHook().get_conn()
    leftovers = find_leftovers(access.lake, access.cluster, snapshot_id, brokers)
    if leftovers:
        raise RefusedError(
            f"{len(leftovers)} bundles are still on the brokers, the first is {leftovers[0]}",
            "see in the plan's rejections why they stay, mend that, then run the Dag again",
        )
