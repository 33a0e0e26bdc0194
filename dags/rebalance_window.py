"""By hand, for a maintenance window: bring the brokers back into balance, with a person's consent.

1. `request_plan` picks the newest snapshot that passed its gate, or the one given.
2. `profile_load`, `find_split_candidates` and `plan_transfers` run on Spark and answer the request in the lake.
3. `check_plan` judges the plan; a critical finding ends the run as failed.
4. `has_steps` ends the run with success where there is nothing to do.
5. `approve` shows the plan to a person and waits. Silence is a no; a no skips the rest.
6. `record_approval` puts down who approved exactly this plan, and when.
7. `apply_plan` lets the guarded writer carry it out, step by step, resumable at every point.
8. `verify_run` snapshots again and compares what was foretold with what came true.

Only step 7 writes to the cluster.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import Param, chain, dag

from evenkeel.model.request import STRATEGIES
from evenkeel.orchestration.applying import apply_plan, verify_run
from evenkeel.orchestration.approving import DEFAULT_TIMEOUT_MINUTES, PlanApprovalOperator, record_approval
from evenkeel.orchestration.planning import check_plan, has_steps, request_plan, submit_spark_job

JOBS = Path(__file__).resolve().parents[1] / "spark" / "jobs"


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["evenkeel"],
    params={
        "snapshot": Param(None, type=["null", "string"], description="snapshot id; empty: the newest that passed"),
        "strategy": Param(STRATEGIES[0], type="string", enum=list(STRATEGIES), description="how to plan"),
        "approval_timeout_minutes": Param(
            DEFAULT_TIMEOUT_MINUTES, type="number", exclusiveMinimum=0, description="no answer by then is a no"
        ),
    },
)
def rebalance_window() -> None:
    request = request_plan()
    profile = submit_spark_job(JOBS / "profile_load.py", request)
    candidates = submit_spark_job(JOBS / "find_split_candidates.py", request)
    transfers = submit_spark_job(JOBS / "plan_transfers.py", request)
    plan = check_plan(request)
    approve = PlanApprovalOperator(
        task_id="approve", plan=plan, timeout_minutes="{{ params.approval_timeout_minutes }}"
    )
    approval = record_approval(plan, approve.output)
    run = apply_plan(approval)

    chain(request, profile, candidates, transfers, plan, has_steps(plan), approve, approval, run, verify_run(run))


rebalance_window()
