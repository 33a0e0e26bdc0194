"""Triggered by hand: undo a run by its journal, after a person's approval.

1. `check_request` judges the parameters: the run exists, and is of this cluster.
2. `plan_rollback` plans to move every bundle back that is still where the run put it.
3. `check_rollback` judges the plan. If a critical check fails, the run fails.
4. `approve` shows the plan, and what cannot be undone, to a person and waits. A rejection skips the rest; no answer
   counts as a rejection. Both are recorded beside the plan.
5. `record_approval` records who approved exactly this plan, and when, if its steps still hold.
6. `apply_plan` applies the plan step by step with the guarded writer. It can be resumed at any point.
7. `verify_run` takes a new snapshot and compares the predicted with the realised load.

Only step 6 writes to the cluster.
"""

from airflow.sdk import (
    TaskGroup,
    dag,  # noqa: F401  # Airflow looks for this word before it parses a file
)

from evenkeel.orchestration.applying import approve_and_apply
from evenkeel.orchestration.checking import check_request
from evenkeel.orchestration.clusters import find_clusters
from evenkeel.orchestration.parameters import approval_params, rollback_params, time_params
from evenkeel.orchestration.planning import check_rollback, plan_rollback

params = {**rollback_params(), **time_params(), **approval_params()}

for cluster in find_clusters():
    with cluster.dag("rollback_plan", __doc__, params=params):
        with TaskGroup("planning", prefix_group_id=False):
            request = check_request(cluster.name, list(params))
            plan = check_rollback(cluster.name, request, plan_rollback(cluster.name, request))
        approve_and_apply(cluster, request, plan)
