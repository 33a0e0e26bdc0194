"""From a checked plan to a verified run: the chain of tasks that every Dag with a plan ends in.

    approve ──▶ record_approval ──▶ (wait_for_window) ──▶ apply_plan ──▶ verify_run

Only `apply_plan` writes to the cluster.
"""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow.sdk import TaskGroup, chain, get_current_context, task

from evenkeel.model.canonical import canonical_json
from evenkeel.model.errors import RefusedError, RunStoppedError
from evenkeel.model.run import RunState, StepState
from evenkeel.model.timestamps import parse_time
from evenkeel.orchestration import TaskOutput
from evenkeel.orchestration.approving import PlanApprovalOperator, record_approval
from evenkeel.orchestration.clusters import DagCluster
from evenkeel.orchestration.connection import open_access
from evenkeel.orchestration.parameters import DEADLINE
from evenkeel.orchestration.progress import TaskProgress
from evenkeel.orchestration.retry import READER, WRITER
from evenkeel.orchestration.timetable import now
from evenkeel.orchestration.windows import find_window, wait_for_window
from evenkeel.windows.rules import LONGEST_WINDOW

if TYPE_CHECKING:
    from airflow.sdk import XComArg

# A plan expires with its window or, by default, four hours after its snapshot, so no run needs more time than that.
APPLY_TIMEOUT = LONGEST_WINDOW
VERIFY_TIMEOUT = timedelta(minutes=15)
log = logging.getLogger(__name__)
RUN_ID = "run_id"


def approve_and_apply(
    cluster: DagCluster, request: TaskOutput, plan: TaskOutput, *, only_if: TaskOutput = None, in_window: bool = False
) -> XComArg:
    """Wire a checked plan to its approval, its execution and its verification; returns the verification.

    `only_if` is a short-circuit task that must let the run through before anybody is asked. With `in_window`, the plan
    is applied in the maintenance window that the run belongs to. The Dag needs the parameters of `approval_params`.
    """
    name = cluster.name
    with TaskGroup("approval", prefix_group_id=False):
        approve = PlanApprovalOperator(task_id="approve", cluster=name, plan=plan, request=request)
        approval = record_approval(name, plan, request, approve.output)
    with TaskGroup("application", prefix_group_id=False):
        opening = [wait_for_window(name, request)] if in_window else []
        run = apply_plan.override(pool=cluster.pool)(name, request, approval)
        verification = verify_run(name, run)
    chain(plan if only_if is None else only_if, approve, approval, *opening, run, verification)
    return verification


@task(execution_timeout=APPLY_TIMEOUT, **WRITER)
def apply_plan(cluster: str | None, request: TaskOutput, approval: TaskOutput) -> dict[str, Any]:
    """Apply the approved plan with the guarded writer, or resume where an earlier try stopped.

    The writer itself checks the approval, the fence and each bundle before it writes. If this task is killed, the
    journal records how far each step got, and clearing the task resumes from there. The end of the run's window or
    deadline is no failure: what was done stays, and the rest is planned anew.
    """
    from evenkeel.adapters.lake.plans import PlanStore
    from evenkeel.stages.apply import apply_plan as apply

    context = get_current_context()
    access = open_access(cluster)
    window, deadline = find_window(access, request), request[DEADLINE]
    ends = [parse_time(deadline)] if deadline is not None else []
    ends += [window.last_step_before] if window is not None else []
    until = min(ends, default=None)
    steps = PlanStore(access.lake).load(approval["plan_id"]).steps
    run = apply(
        access.lake,
        approval["plan_id"],
        access.connection,
        access.settings,
        on_progress=TaskProgress(steps, context.get("task_state_store")),
        approvals=access.approvals,
        until=until,
    )
    context["ti"].xcom_push(RUN_ID, run.run_id)
    has_ended = until is not None and run.state is RunState.STOPPED and now() >= until
    if has_ended:
        log.warning("the run's time was over: %s; the next run plans anew what is left", run.detail)
    elif run.state is not RunState.DONE:
        raise RunStoppedError(
            f"run {run.run_id} stopped ({run.detail})", "fix the cause, then clear the task apply_plan to resume"
        )
    return {
        RUN_ID: run.run_id,
        "plan_id": run.plan_id,
        "epoch": run.epoch,
        "state": str(run.state),
        **{str(state): run.count(state) for state in StepState},
    }


@task(execution_timeout=VERIFY_TIMEOUT, **READER)
def verify_run(cluster: str | None, run: TaskOutput) -> dict[str, Any]:
    """Take a new snapshot and compare the predicted with the realised load."""
    from evenkeel.stages.verify import verify_run as verify

    access = open_access(cluster)
    verification = verify(access.lake, run[RUN_ID], access.connection, access.settings)
    if run["state"] == RunState.STOPPED:
        # Its time was over before it was through; the plan cannot have come true as a whole.
        log.warning("%s of %s steps were done in time", f"{verification.settled:,}", f"{verification.planned:,}")
    elif not verification.passed:
        raise RefusedError(
            f"the load after run {run[RUN_ID]} is not what its plan predicted",
            f"compare the verification under {access.lake.uri_of(f'runs/{run[RUN_ID]}')} with the plan",
        )
    # Plain JSON, because Airflow serialises the tuples of a dataclass in its own format.
    return dict(json.loads(canonical_json(verification.to_json())))
