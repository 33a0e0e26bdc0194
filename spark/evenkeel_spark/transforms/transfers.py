"""Plan the transfers of each pool: one group, one run of the pure planner, one row."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import DoubleType, StringType, StructField, StructType

from evenkeel.model.errors import EvenkeelError
from evenkeel.model.load import SplitCandidate
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning import pool_planner
from evenkeel.planning.peers.decision import PeerDecision
from evenkeel.planning.peers.peer_plan import peer_pool_plan
from evenkeel.planning.search.optimiser import always
from evenkeel_spark.stated_errors import encode_error
from evenkeel_spark.transforms.bundle_columns import bundle_columns

POOL_PLANS = StructType(
    [
        StructField("pool", StringType(), False, {"comment": "name of the pool"}),
        StructField("plan", StringType(), True, {"comment": "the pool's plan as JSON; null where there is an error"}),
        StructField("error", StringType(), True, {"comment": "what a user has to know, as JSON"}),
        StructField("seconds", DoubleType(), False, {"comment": "seconds that the planner took"}),
    ]
)


@dataclass(frozen=True, slots=True)
class PlanningInputs:
    """What every pool's planner needs besides its bundles; small, and sent to the executors as it is.

    With a `peer`, its decision is carried out, and nothing else.
    """

    brokers: Sequence[Broker]
    policies: Policies
    settings: Settings
    split_candidates: Sequence[SplitCandidate] = ()
    peer: PeerDecision | None = None


def pool_plans(pooled_bundles: DataFrame, inputs: PlanningInputs, pool_count: int) -> DataFrame:
    """The plan of each pool; pools run in parallel, and each is planned by one process."""
    # By number, not by hash: a pool has a partition to itself, so that no two wait for each other.
    spread = pooled_bundles.repartitionById(max(pool_count, 1), "pool_number")
    return spread.groupBy("pool_number").applyInArrow(_planner(inputs), POOL_PLANS)


def _planner(inputs: PlanningInputs) -> Callable[[pa.Table], pa.Table]:
    def plan(group: pa.Table) -> pa.Table:
        return plan_pool(group, inputs)

    return plan


def plan_pool(group: pa.Table, inputs: PlanningInputs) -> pa.Table:
    """Plan one pool from the rows of its bundles, in whatever order they come."""
    started_at_s = time.monotonic()
    pool = group["pool"][0].as_py()
    plan = error = None
    try:
        given = (pool, inputs.brokers, bundle_columns(group), inputs.policies, inputs.settings)
        if inputs.peer is None:
            deadline_s = inputs.settings.search_deadline_s
            has_time = always if deadline_s is None else lambda: time.monotonic() - started_at_s < deadline_s
            planned = pool_planner.plan_pool(*given, inputs.split_candidates, has_time)
        else:
            planned = peer_pool_plan(*given, inputs.peer)
        plan = planned.to_json()
    except EvenkeelError as stated:
        # As a value, or else Spark would bury the sentence in a trace of its own.
        error = encode_error(stated)
    row = {"pool": [pool], "plan": [plan], "error": [error], "seconds": [time.monotonic() - started_at_s]}
    return pa.table({name: pa.array(values, _ARROW_TYPES[name]) for name, values in row.items()})


_ARROW_TYPES = {"pool": pa.string(), "plan": pa.string(), "error": pa.string(), "seconds": pa.float64()}
