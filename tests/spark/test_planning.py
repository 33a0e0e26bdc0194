"""Pools on frames: who is planned with whom, and a plan that no partitioning changes."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from evenkeel.adapters.lake.store import to_arrow
from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.request import STRATEGIES
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle, Topic
from evenkeel.planning.cluster.assembly import assemble
from evenkeel_spark.cluster_loads import ClusterLoads
from evenkeel_spark.driver_loads import DriverLoads
from evenkeel_spark.planning import PlanningInputs, find_counterfactuals, require_legal, solve_pools, with_decision_of
from evenkeel_spark.spark_loads import SparkLoads
from evenkeel_spark.transforms.planning_loads import planning_loads, rates_now
from evenkeel_spark.transforms.pools import by_pool
from support.clusters import context
from support.frames import frame_of
from support.lakes import make_broker, make_bundle, make_policy, make_random_brokers, make_random_bundles

ISOLATED = {
    "gold": {
        "namespaces": ["tenant-1/.*"],
        "primary": ["b00[01]"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
    }
}


def frame_of_loads(spark: SparkSession, bundles: Sequence[Bundle], inputs: PlanningInputs) -> DataFrame:
    """The planning load of bundles whose load now is all that is known."""
    rates = frame_of(spark, Bundle, bundles).transform(rates_now)
    return rates.transform(planning_loads, inputs.brokers, inputs.settings)


def loads_of(spark: SparkSession, bundles: Sequence[Bundle], inputs: PlanningInputs) -> SparkLoads:
    return SparkLoads(frame_of_loads(spark, bundles, inputs), frame_of(spark, Topic, []))


def loads_on_driver(bundles: Sequence[Bundle], inputs: PlanningInputs) -> DriverLoads:
    rows, no_topics = to_arrow(Bundle, bundles), to_arrow(Topic, [])
    return DriverLoads.of_snapshot(rows, None, no_topics, inputs.brokers, (), inputs.settings)


def test_pool_knows_its_own_bundles_and_the_strangers_on_its_brokers(spark: SparkSession) -> None:
    bundles = spark.createDataFrame(
        [("p/1", "p", "b1", *[1] * 7, "Owned"), ("q/1", "q", "b1", *[1] * 7, "Owned")],
        "bundle string, namespace string, owner string, version_id long, topics long, sessions long, "
        "msg_rate_millis long, throughput_in long, throughput_out long, cpu_millipercent long, state string",
    )
    namespace_pools = spark.createDataFrame([("p", "b1"), ("q", "b2")], "namespace string, namespace_pool string")
    broker_pools = spark.createDataFrame([("b1", "b1"), ("b2", "b2"), ("b3", "b3")], "owner string, owner_pool string")
    pools = spark.createDataFrame([(0, "b1"), (1, "b2"), (2, "b3")], "pool_number int, pool string")
    pooled = bundles.transform(by_pool, namespace_pools, broker_pools, pools).select("pool", "bundle")
    expected = [("b1", "p/1"), ("b1", "q/1"), ("b2", "q/1"), ("b3", None)]
    assertDataFrameEqual(pooled, [Row(pool=pool, bundle=bundle) for pool, bundle in expected])


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plan_is_the_same_on_driver_and_executors_however_the_bundles_are_partitioned(
    spark: SparkSession, strategy: str
) -> None:
    policies = Policies.from_documents([make_policy("isolation", ISOLATED)])
    settings = Settings.from_json({"bundle_unload_min_throughput_threshold": 0.0, "broker_load_target_std": 0.05})
    inputs = PlanningInputs(make_random_brokers(6, seed=3), policies, settings)
    bundles = make_random_bundles(brokers=6, bundles_per_broker=20, seed=3, namespaces=14)
    plans = []
    places: list[ClusterLoads] = [
        SparkLoads(frame_of_loads(spark, rows, inputs).repartition(partitions), frame_of(spark, Topic, []))
        for rows, partitions in ((bundles, 1), (bundles[::-1], 7))
    ]
    for loads in (*places, loads_on_driver(bundles, inputs), loads_on_driver(bundles[::-1], inputs)):
        decided = with_decision_of(strategy, loads, inputs)
        solved = solve_pools(loads, decided).plans
        compared = find_counterfactuals(loads, inputs, len(bundles))
        planned = assemble(solved, context(settings, strategy=strategy, counterfactual=compared))
        require_legal(loads, planned.steps, decided)
        plans.append(planned)
    assert {planned.plan.plan_id for planned in plans} == {plans[0].plan.plan_id}
    assert all(planned == plans[0] for planned in plans)
    assert {row.pool for row in plans[0].brokers} == {"b000:8080", "b002:8080"}
    assert plans[0].steps
    assert [row.strategy for row in plans[0].plan.counterfactual] == list(STRATEGIES[1:])
    assert all(row.unloads > 0 for row in plans[0].plan.counterfactual)


def test_cluster_without_bundles_is_compared_without_a_single_row(spark: SparkSession) -> None:
    inputs = PlanningInputs([make_broker("b1:8080"), make_broker("b2:8080")], Policies(), Settings())
    loads = loads_of(spark, [], inputs)
    assert [row.moves for row in find_counterfactuals(loads, inputs, 0)] == [0, 0]
    assert with_decision_of("transfer-shedder", loads, inputs).decision is not None
    assert with_decision_of("certified", loads, inputs).decision is None


def test_comparison_of_too_many_bundles_is_left_out(spark: SparkSession) -> None:
    inputs = PlanningInputs([make_broker("b1:8080")], Policies(), Settings(counterfactual_max_bundles=5))
    rows = find_counterfactuals(loads_of(spark, [], inputs), inputs, 6)
    assert "6 bundles are more than 5" in rows[0].stopped_because


def test_owner_that_is_no_broker_ends_in_one_sentence(spark: SparkSession) -> None:
    bundles = [make_bundle("t/n/0x00000000_0xffffffff", owner="gone:8080", msg_rate_in_per_s=1.0)]
    inputs = PlanningInputs([make_broker("b1:8080")], Policies(), Settings())
    places: list[ClusterLoads] = [loads_of(spark, bundles, inputs), loads_on_driver(bundles, inputs)]
    for loads in places:
        with pytest.raises(InputError, match="gone:8080 owns bundles but is not among the brokers"):
            solve_pools(loads, inputs)
        with pytest.raises(InputError, match="gone:8080 owns bundles but is not among the brokers"):
            find_counterfactuals(loads, inputs, 1)


def test_idle_and_system_bundles_are_not_planned_but_use_cpu(spark: SparkSession) -> None:
    served = make_bundle("t/n/0x00000000_0x80000000", msg_rate_in_per_s=3.0)
    idle = make_bundle("t/n/0x80000000_0xffffffff", owner=None)
    heartbeat = make_bundle("pulsar/b1:8080/0x00000000_0xffffffff", msg_rate_in_per_s=1.0)
    brokers = [make_broker("b1:8080", cpu_usage_percent=100.0), make_broker("b2:8080", cpu_usage_percent=None)]
    inputs = PlanningInputs(brokers, Policies(), Settings())
    (plan,) = solve_pools(loads_of(spark, [served, idle, heartbeat], inputs), inputs).plans
    assert [(broker.broker_id, broker.used[0]) for broker in plan.brokers] == [("b1:8080", 75_000), ("b2:8080", 0)]


def test_unknown_limit_takes_the_resource_out_and_not_the_broker(spark: SparkSession) -> None:
    halves = ["t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"]
    bundles = [make_bundle(name, throughput_in_bytes_per_s=400e6, msg_rate_in_per_s=1.0) for name in halves]
    brokers = [make_broker("b1:8080", cpu_limit_percent=None), make_broker("b2:8080", cpu_limit_percent=None)]
    inputs = PlanningInputs(brokers, Policies(), Settings())
    (plan,) = solve_pools(loads_of(spark, bundles, inputs), inputs).plans
    assert [broker.limit[0] for broker in plan.brokers] == [0, 0]
    assert [(move.source, move.destination) for move in plan.moves] == [(0, 1)]


def test_bundle_in_flight_is_load_that_stays(spark: SparkSession) -> None:
    big = {"throughput_in_bytes_per_s": 400e6, "throughput_out_bytes_per_s": 400e6}
    halves = ["t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"]
    inputs = PlanningInputs([make_broker("b1:8080"), make_broker("b2:8080")], Policies(), Settings())
    for state, moved in (("Owned", 1), ("Releasing", 0)):
        bundles = [make_bundle(name, state=state, **big) for name in halves]
        (plan,) = solve_pools(loads_of(spark, bundles, inputs), inputs).plans
        assert len(plan.moves) == moved
        assert {broker.broker_id: broker.used[1] for broker in plan.brokers} == {"b1:8080": 800_000_000, "b2:8080": 0}
