"""Plan a cluster: cut it into pools on the driver, plan the pools on the executors, bring the plans back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from evenkeel.model.load import Resource, limit_units
from evenkeel.model.snapshot import Broker
from evenkeel.planning.pool_plan import PoolPlan
from evenkeel.planning.pools import PoolAssignment, assign_pools, live_broker_ids
from evenkeel_spark.stated_errors import decode_error
from evenkeel_spark.transforms.cpu_shares import with_cpu_shares
from evenkeel_spark.transforms.pools import by_pool, owned_bundles, without_system_namespaces
from evenkeel_spark.transforms.transfers import PlanningInputs, pool_plans


@dataclass(frozen=True, slots=True)
class SolvedPools:
    """The plans of all pools in order of their names, and the seconds that the planner took for them together."""

    plans: Sequence[PoolPlan]
    seconds: float


def solve_pools(spark: SparkSession, profiles: DataFrame, inputs: PlanningInputs) -> SolvedPools:
    """Plan all pools of a cluster from the profiles of its bundles."""
    owned = profiles.transform(owned_bundles)
    # Namespaces are few, and only the driver sees all policies at once.
    rows = owned.transform(without_system_namespaces).select("namespace").distinct().collect()
    pools = assign_pools(sorted(row["namespace"] for row in rows), live_broker_ids(inputs.brokers), inputs.policies)
    names = sorted({*pools.pool_of_broker.values(), *pools.pool_of_namespace.values()})
    planned = (
        owned.transform(with_cpu_shares, _broker_cpu(spark, inputs.brokers))
        .transform(without_system_namespaces)
        .transform(by_pool, *_pool_frames(spark, pools, names))
        .transform(pool_plans, inputs, len(names))
        .collect()
    )
    for row in planned:
        if row["error"] is not None:
            raise decode_error(row["error"])
    in_order = sorted(planned, key=lambda row: row["pool"])
    return SolvedPools([PoolPlan.from_json(row["plan"]) for row in in_order], sum(row["seconds"] for row in in_order))


def _broker_cpu(spark: SparkSession, brokers: Sequence[Broker]) -> DataFrame:
    rows = [(broker.broker_id, limit_units(Resource.CPU, broker.cpu_usage_percent)) for broker in brokers]
    return spark.createDataFrame(rows, "owner string, broker_cpu_millipercent long")


def _pool_frames(
    spark: SparkSession, pools: PoolAssignment, names: Sequence[str]
) -> tuple[DataFrame, DataFrame, DataFrame]:
    return (
        spark.createDataFrame(list(pools.pool_of_namespace.items()), "namespace string, namespace_pool string"),
        spark.createDataFrame(list(pools.pool_of_broker.items()), "owner string, owner_pool string"),
        spark.createDataFrame(list(enumerate(names)), "pool_number int, pool string"),
    )
