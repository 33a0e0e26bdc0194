"""Plan a cluster: cut it into pools on the driver, plan the pools on the executors, bring the plans back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame, SparkSession

from evenkeel.model.bundles import is_system_namespace
from evenkeel.planning.pool_plan import PoolPlan
from evenkeel.planning.pools import PoolAssignment, assign_pools, live_broker_ids
from evenkeel_spark.large_bundles import find_large_bundles, namespace_totals
from evenkeel_spark.stated_errors import decode_error
from evenkeel_spark.transforms.pools import by_pool, plannable_bundles
from evenkeel_spark.transforms.transfers import PlanningInputs, pool_plans


@dataclass(frozen=True, slots=True)
class SolvedPools:
    """The plans of all pools in order of their names, the seconds that each took, and the namespaces in them."""

    plans: Sequence[PoolPlan]
    seconds_of_pools: Sequence[float]
    namespaces: Sequence[str]

    @property
    def seconds(self) -> float:
        """The seconds that the planner took for all pools together."""
        return sum(self.seconds_of_pools)

    @property
    def bundles(self) -> int:
        """How many bundles the pools have."""
        return sum(plan.bundles for plan in self.plans)


def solve_pools(loads: DataFrame, inputs: PlanningInputs, topics: DataFrame | None = None) -> SolvedPools:
    """Plan all pools of a cluster from the planning load of its bundles.

    With the snapshot's topics, bundles that turn out to be too big for any broker are split, candidates or not.
    """
    bundles = loads.transform(plannable_bundles)
    # Namespaces are few, and only the driver sees all policies at once.
    totals = [row for row in namespace_totals(loads) if row["owned"] and not is_system_namespace(row["namespace"])]
    namespaces = sorted(row["namespace"] for row in totals)
    pools = assign_pools(namespaces, live_broker_ids(inputs.brokers), inputs.policies)
    has_splits_left = len(inputs.split_candidates) < inputs.settings.max_number_of_bundles_to_split_per_cycle
    if topics is not None and inputs.peer is None and has_splits_left:
        large = find_large_bundles(bundles, topics, totals, pools, inputs)
        inputs = replace(inputs, split_candidates=[*inputs.split_candidates, *large])
    names = sorted({*pools.pool_of_broker.values(), *pools.pool_of_namespace.values()})
    planned = (
        bundles.transform(by_pool, *_pool_frames(loads.sparkSession, pools, names))
        .transform(pool_plans, inputs, len(names))
        .collect()
    )
    for row in planned:
        if row["error"] is not None:
            raise decode_error(row["error"])
    in_order = sorted(planned, key=lambda row: row["pool"])
    plans = [PoolPlan.from_json(row["plan"]) for row in in_order]
    return SolvedPools(plans, [row["seconds"] for row in in_order], namespaces)


def _pool_frames(
    spark: SparkSession, pools: PoolAssignment, names: Sequence[str]
) -> tuple[DataFrame, DataFrame, DataFrame]:
    return (
        spark.createDataFrame(list(pools.pool_of_namespace.items()), "namespace string, namespace_pool string"),
        spark.createDataFrame(list(pools.pool_of_broker.items()), "owner string, owner_pool string"),
        spark.createDataFrame(list(enumerate(names)), "pool_number int, pool string"),
    )
