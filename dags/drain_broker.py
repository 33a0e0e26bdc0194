"""By hand: empty brokers for maintenance, with a person's consent.

1. `mark_brokers` marks them, so that every snapshot from now on calls them Stopping.
2. `request_drain` snapshots the cluster, judges the snapshot, and asks for a plan of what must move and nothing else.
3. `profile_load`, `find_split_candidates` and `plan_transfers` run on Spark and answer the request in the lake.
4. `check_plan` judges the plan; a critical finding ends the run as failed.
5. `has_steps_or_is_empty` ends the run with success where the brokers are empty already.
6. `approve` shows the plan to a person and waits. Silence is a no; a no skips the rest, and the marks stay.
7. `record_approval` puts down who approved exactly this plan, and when.
8. `apply_plan` lets the guarded writer carry it out; after the deadline, if one is given, no step begins.
9. `verify_run` and `verify_empty` snapshot again and see that nothing is left on the brokers.

Steps 1 and 8 write to the cluster. `evenkeel drain --undo` takes the marks away.
"""

from datetime import UTC, datetime
from pathlib import Path

from airflow.sdk import Param, chain, dag

from evenkeel.orchestration.applying import DEADLINE, apply_plan, verify_run
from evenkeel.orchestration.approving import DEFAULT_TIMEOUT_MINUTES, PlanApprovalOperator, record_approval
from evenkeel.orchestration.draining import has_steps_or_is_empty, mark_brokers, request_drain, verify_empty
from evenkeel.orchestration.planning import check_plan, submit_spark_job

JOBS = Path(__file__).resolve().parents[1] / "spark" / "jobs"


@dag(
    schedule=None,
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    tags=["evenkeel"],
    params={
        "brokers": Param([], type="array", items={"type": "string"}, description="ids of the brokers, host:port"),
        DEADLINE: Param(
            None, type=["null", "string"], description="no step begins after it, such as 2026-01-31T03:00:00Z"
        ),
        "approval_timeout_minutes": Param(
            DEFAULT_TIMEOUT_MINUTES, type="number", exclusiveMinimum=0, description="no answer by then is a no"
        ),
    },
)
def drain_broker() -> None:
    brokers = mark_brokers()
    request = request_drain(brokers)
    profile = submit_spark_job(JOBS / "profile_load.py", request)
    candidates = submit_spark_job(JOBS / "find_split_candidates.py", request)
    transfers = submit_spark_job(JOBS / "plan_transfers.py", request)
    plan = check_plan(request)
    has_steps = has_steps_or_is_empty(plan, brokers)
    approve = PlanApprovalOperator(
        task_id="approve", plan=plan, timeout_minutes="{{ params.approval_timeout_minutes }}"
    )
    approval = record_approval(plan, approve.output)
    run = apply_plan(approval)
    verification = verify_run(run)

    chain(request, profile, candidates, transfers, plan, has_steps, approve, approval, run, verification)
    verify_empty(verification, brokers)


drain_broker()
