"""Tasks that carry an approved plan out, and look at what it did."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

from airflow.sdk import get_current_context, task

from evenkeel.model.canonical import canonical_json
from evenkeel.model.errors import RefusedError, RunStoppedError
from evenkeel.model.moments import parse_time
from evenkeel.model.run import RunState, StepState
from evenkeel.orchestration.connection import EvenkeelHook
from evenkeel.orchestration.retry import READER, WRITER

# A plan expires four hours after its snapshot by default, so no run has business beyond that.
APPLY_TIMEOUT = timedelta(hours=4)
VERIFY_TIMEOUT = timedelta(minutes=15)
RUN_ID = "run_id"
# A Dag's parameter: the moment after which no step begins.
DEADLINE = "deadline"


@task(execution_timeout=APPLY_TIMEOUT, **WRITER)
def apply_plan(approval: dict[str, Any]) -> dict[str, Any]:
    """Let the guarded writer carry out the plan that the approval names, or what an earlier try left of it.

    The writer itself proves the approval, the fence and each bundle before it writes. When this task is killed, the
    journal tells how far the steps under way have come, and clearing the task resumes there.
    """
    from evenkeel.stages.apply import apply_plan as apply

    context = get_current_context()
    deadline = context["params"].get(DEADLINE)
    access = EvenkeelHook().get_conn()
    run = apply(
        access.lake,
        approval["plan_id"],
        access.connection,
        access.settings,
        until=None if deadline is None else parse_time(deadline),
    )
    context["ti"].xcom_push(RUN_ID, run.run_id)
    if run.state is not RunState.DONE:
        raise RunStoppedError(
            f"run {run.run_id} stopped ({run.detail})", "find the cause, then clear the task apply_plan"
        )
    return {
        RUN_ID: run.run_id,
        "plan_id": run.plan_id,
        "epoch": run.epoch,
        "state": str(run.state),
        **{str(state): run.count(state) for state in StepState},
    }


@task(execution_timeout=VERIFY_TIMEOUT, **READER)
def verify_run(run: dict[str, Any]) -> dict[str, Any]:
    """Snapshot again, and compare what the plan foretold with what came true."""
    from evenkeel.stages.verify import verify_run as verify

    access = EvenkeelHook().get_conn()
    verification = verify(access.lake, run[RUN_ID], access.connection, access.settings)
    if not verification.passed:
        raise RefusedError(
            f"run {run[RUN_ID]} did not do to the load what its plan foretold",
            f"compare the verification with the plan under {access.lake.uri_of(f'runs/{run[RUN_ID]}')}",
        )
    # Plain JSON: Airflow would store the tuples of a dataclass in a spelling of its own.
    return dict(json.loads(canonical_json(verification.to_json())))
