"""By hand: undo what a run has done, as its journal tells, with a person's consent.

1. `plan_rollback` plans the way back for every bundle that is still where the run put it.
2. `check_rollback` judges that plan; a critical finding ends the run as failed.
3. `approve` shows it, and what cannot go back, to a person and waits. Silence is a no; a no skips the rest.
4. `record_approval` puts down who approved exactly this plan, and when.
5. `apply_plan` lets the guarded writer carry it out, step by step, resumable at every point.
6. `verify_run` snapshots again and compares what was foretold with what came true.

Only step 5 writes to the cluster.
"""

from datetime import UTC, datetime

from airflow.sdk import Param, chain, dag

from evenkeel.orchestration.applying import apply_plan, verify_run
from evenkeel.orchestration.approving import DEFAULT_TIMEOUT_MINUTES, PlanApprovalOperator, record_approval
from evenkeel.orchestration.rolling_back import check_rollback, plan_rollback


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["evenkeel"],
    params={
        "run": Param("", type="string", description="id of the run to undo; `evenkeel runs` lists them"),
        "approval_timeout_minutes": Param(
            DEFAULT_TIMEOUT_MINUTES, type="number", exclusiveMinimum=0, description="no answer by then is a no"
        ),
    },
)
def rollback_plan() -> None:
    made = plan_rollback()
    plan = check_rollback(made)
    approve = PlanApprovalOperator(
        task_id="approve", plan=plan, timeout_minutes="{{ params.approval_timeout_minutes }}"
    )
    approval = record_approval(plan, approve.output)
    run = apply_plan(approval)

    chain(made, plan, approve, approval, run, verify_run(run))


rollback_plan()
