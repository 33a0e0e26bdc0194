"""Before each maintenance window, or triggered by hand: rebalance the brokers, after a person's approval.

1. `check_request` judges every parameter, and decides which window the run belongs to.
2. `prepare_snapshot` takes a snapshot and judges it, unless one exists that is recent and newer than the last run.
3. `request_plan` writes down what to plan: the snapshot, the strategy, the settings with what was asked for.
4. `make_plan` runs one Spark application (load profiles, split candidates, transfers) and stores the plan in the lake.
5. `check_plan` judges the plan. If a critical check fails, the run fails.
6. `has_steps` stops the run with success if there is nothing to do, or if only a plan was asked for.
7. `approve` shows the plan to a person and waits. A rejection skips the rest; no answer counts as a rejection. Both are
   recorded beside the plan.
8. `record_approval` records who approved exactly this plan, and when, if its steps still hold.
9. `wait_for_window` waits until the window opens.
10. `apply_plan` applies the plan step by step with the guarded writer. No step begins after the window's end, less its
    cutoff; what is left then is planned anew for the next window. It can be resumed at any point.
11. `verify_run` takes a new snapshot and compares the predicted with the realised load.

Only step 10 writes to the cluster. The windows are those of the cluster in `evenkeel.toml`; without any, the Dag is
triggered by hand and waits for nothing. A missed window is not made up for. With a reason in `break_glass`, a run by
hand goes on outside every window.
"""

from airflow.sdk import (
    TaskGroup,
    chain,
    dag,  # noqa: F401  # Airflow looks for this word before it parses a file
)

from evenkeel.orchestration.applying import approve_and_apply
from evenkeel.orchestration.checking import check_request
from evenkeel.orchestration.clusters import find_clusters
from evenkeel.orchestration.parameters import approval_params, plan_params, time_params, window_params
from evenkeel.orchestration.planning import check_plan, has_steps, prepare_snapshot, request_plan, submit_plan

params = {**plan_params(), **time_params(), **window_params(), **approval_params()}

for cluster in find_clusters():
    with cluster.dag("rebalance_window", __doc__, schedule=cluster.windows, params=params):
        with TaskGroup("planning", prefix_group_id=False):
            request = check_request(cluster.name, list(params), has_windows=True)
            snapshot = prepare_snapshot(cluster.name, request)
            planned = request_plan(cluster.name, request, snapshot)
            made = submit_plan(cluster, planned)
            plan = check_plan(cluster.name, request, planned)
            chain(planned, made, plan)
        approve_and_apply(cluster, request, plan, only_if=has_steps(plan, request), in_window=True)
