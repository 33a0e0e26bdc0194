"""A broker that nobody hears: its pool is left as it is, the other pools are planned."""

from __future__ import annotations

import dataclasses

import pytest

from evenkeel.adapters.lake.store import to_arrow
from evenkeel.model.figures import PoolLimit
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, Topic
from evenkeel.planning.cluster.assembly import PlannedCluster, assemble
from evenkeel.planning.explaining.refusals import NO_REPORT
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel_spark.driver_loads import DriverLoads
from evenkeel_spark.planning import PlanningInputs, require_legal, solve_pools
from support.clusters import context
from support.lakes import make_policy, make_random_brokers, make_random_bundles

ISOLATED = {
    "gold": {
        "namespaces": ["tenant-1/.*"],
        "primary": ["b00[01]"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
    }
}
GOLD, SHARED = "b000:8080", "b002:8080"


def plan(**changes: object) -> tuple[dict[str, PoolPlan], PlannedCluster]:
    """Plan a cluster of two pools in which the second broker of the first pool is changed."""
    brokers: list[Broker] = make_random_brokers(6, seed=3)
    brokers[1] = dataclasses.replace(brokers[1], **changes)  # type: ignore[arg-type]
    settings = Settings.from_json({"bundle_unload_min_throughput_threshold": 0.0, "broker_load_target_std": 0.05})
    inputs = PlanningInputs(brokers, Policies.from_documents([make_policy("isolation", ISOLATED)]), settings)
    bundles = make_random_bundles(brokers=6, bundles_per_broker=20, seed=3, namespaces=14)
    loads = DriverLoads.of_snapshot(to_arrow(Bundle, bundles), None, to_arrow(Topic, []), brokers, (), settings)
    plans = solve_pools(loads, inputs).plans
    planned = assemble(plans, context(settings))
    require_legal(loads, planned.steps, inputs)
    return {pool.pool: pool for pool in plans}, planned


@pytest.mark.parametrize("state", ["Initial", "Inactive"])
def test_pool_of_a_silent_broker_is_left_as_it_is_and_told(state: str) -> None:
    assert plan()[0][GOLD].moves, "with all reports there is something to do in this pool"
    pools, planned = plan(state=state, reported_at=None)
    assert (pools[GOLD].moves, pools[GOLD].splits) == ((), ())
    (figures,) = [pool for pool in planned.plan.pools if pool.pool == GOLD]
    assert (figures.limited_by, figures.reaches_band) == (PoolLimit.NO_REPORT, False)
    assert pools[SHARED].moves
    (told,) = [row for row in planned.rejections if row.rule == NO_REPORT and row.scope == "pool"]
    assert (told.pool, told.broker) == (GOLD, "b001:8080")
    assert "nobody knows what b001:8080 carries" in told.detail


def test_broker_that_is_being_drained_is_emptied_without_a_report() -> None:
    pools, planned = plan(state="Stopping", reported_at=None)
    sources = {step.source for step in planned.steps}
    assert "b001:8080" in sources
    assert pools[GOLD].diagnosis.limited_by is not PoolLimit.NO_REPORT
