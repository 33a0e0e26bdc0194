"""Tasks that make the way back from a run into a plan, and judge it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from evenkeel.model.errors import InputError, RefusedError
from evenkeel.orchestration.connection import EvenkeelHook
from evenkeel.orchestration.planning import GATE_TIMEOUT, judge
from evenkeel.orchestration.retry import READER

PLAN_TIMEOUT = timedelta(minutes=10)
MOST_NAMED = 5


@task(execution_timeout=PLAN_TIMEOUT, **READER)
def plan_rollback() -> dict[str, Any]:
    """Plan, from journal and a fresh snapshot, to undo what a run has done; one that was undone is refused."""
    from evenkeel.stages.rollback import plan_rollback as plan

    run = get_current_context()["params"]["run"]
    if not run:
        raise InputError("no run is named", "give the parameter run the id of a run; `evenkeel runs` lists them")
    access = EvenkeelHook().get_conn()
    stored = plan(access.lake, run, access.connection, access.settings)
    left = [f"{row.bundle} stays: {row.detail}" for row in stored.rejections]
    if not stored.steps:
        raise RefusedError(f"nothing of run {run} can go back ({'; '.join(left[:MOST_NAMED])})", "leave it as it is")
    return {"plan_id": stored.plan_id, "left": left}


@task(execution_timeout=GATE_TIMEOUT, **READER)
def check_rollback(made: dict[str, Any]) -> dict[str, Any]:
    """Judge the way back, and sum it up for the person who is asked; what stays is told as a warning."""
    summary = judge(EvenkeelHook().get_conn().lake, made["plan_id"])
    named = made["left"][:MOST_NAMED]
    more = [f"and {len(made['left']) - MOST_NAMED} more stay"] if len(made["left"]) > MOST_NAMED else []
    return summary | {"warnings": [*summary["warnings"], *named, *more]}
