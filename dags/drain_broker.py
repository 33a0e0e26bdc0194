"""Triggered by hand: empty brokers for maintenance, after a person's approval.

1. `check_request` judges every parameter: the brokers are registered, the deadline lies ahead.
2. `mark_brokers` marks the brokers, so that every later snapshot lists them as Stopping.
3. `request_drain` snapshots the cluster, judges the snapshot, and requests a plan that moves only what must move.
4. `make_plan` runs one Spark application (load profiles, split candidates, transfers) and stores the plan in the lake.
5. `check_drain` judges the plan. If a critical check fails, the run fails.
6. `has_steps_or_is_empty` stops the run with success if the brokers are already empty.
7. `approve` shows the plan to a person and waits. A rejection skips the rest; no answer counts as a rejection. Both are
   recorded beside the plan.
8. `record_approval` records who approved exactly this plan, and when, if its steps still hold.
9. `apply_plan` applies the plan with the guarded writer. No step starts after the deadline, if one is given.
10. `verify_run` and `verify_empty` take a new snapshot and check that the brokers own no bundles.
11. `remove_marks` removes the marks if nothing was applied, unless they are to be kept.

Steps 2, 9 and 11 write to the cluster. Once steps were applied the marks stay; `undrain_broker` removes them.
"""

from airflow.sdk import (
    TaskGroup,
    chain,
    dag,  # noqa: F401  # Airflow looks for this word before it parses a file
)

from evenkeel.orchestration.applying import approve_and_apply
from evenkeel.orchestration.checking import check_request
from evenkeel.orchestration.clusters import find_clusters
from evenkeel.orchestration.draining import (
    check_drain,
    has_steps_or_is_empty,
    mark_brokers,
    remove_marks,
    request_drain,
    verify_empty,
)
from evenkeel.orchestration.parameters import approval_params, drain_params, keep_params, time_params
from evenkeel.orchestration.planning import submit_plan

params = {**drain_params(), **keep_params(), **time_params(), **approval_params()}

for cluster in find_clusters():
    name = cluster.name
    with cluster.dag("drain_broker", __doc__, params=params):
        with TaskGroup("planning", prefix_group_id=False):
            request = check_request(name, list(params))
            marks = mark_brokers(name, request)
            planned = request_drain(name, marks)
            made = submit_plan(cluster, planned)
            plan = check_drain(name, request, planned)
            chain(planned, made, plan)
        verification = approve_and_apply(cluster, request, plan, only_if=has_steps_or_is_empty(name, plan, request))
        empty = verify_empty(name, verification, request)
        removal = remove_marks(name, request, plan)
        chain(empty, removal.as_teardown(setups=marks))  # type: ignore[arg-type]
