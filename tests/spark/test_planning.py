"""Pools on frames: cpu shares as the planner has them, and a plan that no partitioning changes."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from evenkeel.adapters.lake import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.load import share_cpu
from evenkeel_spark.history import find_history
from evenkeel_spark.io import read_bundle_history
from evenkeel_spark.planning import solve_pools
from evenkeel_spark.transforms.cpu_shares import with_cpu_shares
from evenkeel_spark.transforms.pools import by_pool
from evenkeel_spark.transforms.profiles import bundle_profiles
from evenkeel_spark.transforms.transfers import PlanningInputs
from support.lakes import (
    CLUSTER,
    make_broker,
    make_bundle,
    make_policy,
    make_random_brokers,
    make_random_bundles,
    write_snapshot,
)

ISOLATED = {
    "gold": {
        "namespaces": ["tenant-1/.*"],
        "primary": ["b00[01]"],
        "secondary": [],
        "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
    }
}


def profiles_of(spark: SparkSession, lake: Lake, snapshot_id: str, cluster: str = CLUSTER) -> DataFrame:
    history = find_history(lake, cluster, snapshot_id, days=0.0)
    return read_bundle_history(spark, lake, history).transform(bundle_profiles)


def test_cpu_shares_are_those_of_the_planner(spark: SparkSession) -> None:
    rates, owners = [1_001, 2_000, 4_000, 0, 7, 0], ["b1", "b1", "b1", "b2", "b3", "b1"]
    usage = {"b1": 333.333, "b2": 50.0, "b3": None}
    bundles = spark.createDataFrame(
        list(zip("uvwxyz", owners, rates, strict=True)), "bundle string, owner string, msg_rate_millis long"
    )
    broker_cpu = spark.createDataFrame(
        [("b1", 333_333), ("b2", 50_000), ("b3", 0)], "owner string, broker_cpu_millipercent long"
    )
    expected = share_cpu(rates, [list(usage).index(owner) for owner in owners], list(usage.values())).tolist()
    assert sum(expected) in range(333_332, 333_335)
    for partitions in (1, 5):
        shares = bundles.repartition(partitions).transform(with_cpu_shares, broker_cpu).collect()
        assert [row["cpu_millipercent"] for row in sorted(shares, key=lambda row: row["bundle"])] == expected


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


def test_pools_are_planned_the_same_however_the_bundles_are_partitioned(spark: SparkSession, lake: Lake) -> None:
    brokers = make_random_brokers(6, seed=3)
    policies = Policies.from_documents([make_policy("isolation", ISOLATED)])
    bundles = make_random_bundles(brokers=6, bundles_per_broker=20, seed=3, namespaces=14)
    manifest = write_snapshot(lake, bundles, brokers)
    profiles = profiles_of(spark, lake, manifest.snapshot_id)
    inputs = PlanningInputs(brokers, policies, Settings())
    solved = [solve_pools(spark, profiles.repartition(partitions), inputs).plans for partitions in (1, 7)]
    assert solved[0] == solved[1]
    assert [plan.pool for plan in solved[0]] == ["b000:8080", "b002:8080"]
    assert all(plan.moves for plan in solved[0])


def test_owner_that_is_no_broker_ends_in_one_sentence(spark: SparkSession, lake: Lake) -> None:
    bundles = [make_bundle("t/n/0x00000000_0xffffffff", owner="gone:8080", msg_rate_in_per_s=1.0)]
    brokers = [make_broker("b1:8080")]
    profiles = profiles_of(spark, lake, write_snapshot(lake, bundles, brokers).snapshot_id)
    with pytest.raises(InputError, match="gone:8080 owns bundles but is not among the brokers"):
        solve_pools(spark, profiles, PlanningInputs(brokers, Policies(), Settings()))


def test_idle_and_system_bundles_are_not_planned_but_use_cpu(spark: SparkSession, lake: Lake) -> None:
    served = make_bundle("t/n/0x00000000_0x80000000", msg_rate_in_per_s=3.0)
    idle = make_bundle("t/n/0x80000000_0xffffffff", owner=None)
    heartbeat = make_bundle("pulsar/b1:8080/0x00000000_0xffffffff", msg_rate_in_per_s=1.0)
    brokers = [make_broker("b1:8080", cpu_usage_percent=100.0), make_broker("b2:8080", cpu_usage_percent=None)]
    manifest = write_snapshot(lake, [served, idle, heartbeat], brokers)
    profiles = profiles_of(spark, lake, manifest.snapshot_id)
    (plan,) = solve_pools(spark, profiles, PlanningInputs(brokers, Policies(), Settings())).plans
    assert [(broker.broker_id, broker.used[0]) for broker in plan.brokers] == [("b1:8080", 75_000), ("b2:8080", 0)]


def test_bundle_in_flight_is_load_that_stays(spark: SparkSession, lake: Lake) -> None:
    big = {"throughput_in_bytes_per_s": 400e6, "throughput_out_bytes_per_s": 400e6}
    lower, upper = "t/n/0x00000000_0x80000000", "t/n/0x80000000_0xffffffff"
    brokers = [make_broker("b1:8080"), make_broker("b2:8080")]
    for state, moved in (("Owned", 1), ("Releasing", 0)):
        bundles = [make_bundle(lower, state=state, **big), make_bundle(upper, state=state, **big)]
        manifest = write_snapshot(lake, bundles, brokers, cluster=state)
        profiles = profiles_of(spark, lake, manifest.snapshot_id, cluster=state)
        (plan,) = solve_pools(spark, profiles, PlanningInputs(brokers, Policies(), Settings())).plans
        assert len(plan.moves) == moved
        assert {broker.broker_id: broker.used[1] for broker in plan.brokers} == {"b1:8080": 800_000_000, "b2:8080": 0}
