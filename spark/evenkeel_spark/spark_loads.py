"""The planning loads of a cluster as a Spark frame: bundles stay on the executors, and few rows reach the driver."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DoubleType, LongType, StringType, StructField, StructType

from evenkeel.model.errors import EvenkeelError
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.problem.pools import PoolAssignment
from evenkeel.planning.splitting.cuts import NO_TOPICS, Cut, CutBasis, TopicColumns
from evenkeel_spark.cluster_loads import (
    BUNDLE_COLUMNS,
    RESOURCE_COLUMNS,
    SUMMED_COLUMNS,
    BundlesAtStake,
    NamespaceTotal,
    PlannedPool,
    PoolPlanner,
    cut_bundle,
    pool_names,
)
from evenkeel_spark.stated_errors import decode_error, encode_error
from evenkeel_spark.transforms.columns import with_integer_loads
from evenkeel_spark.transforms.pools import bundle_columns, by_pool, plannable_bundles

_POOL_PLANS = StructType(
    [
        StructField("pool", StringType(), False, {"comment": "name of the pool"}),
        StructField("plan", StringType(), True, {"comment": "the pool's plan as JSON; null where there is an error"}),
        StructField("error", StringType(), True, {"comment": "what a user has to know, as JSON"}),
        StructField("seconds", DoubleType(), False, {"comment": "seconds that the planner took"}),
    ]
)
_VALUE = "value string, error string"
_CUTS = StructType(
    [StructField("bundle", StringType())]
    + [StructField(f.name, StringType() if f.name == "boundary_by" else LongType()) for f in fields(Cut)]
)
_TOPIC_COLUMNS = tuple(field.name for field in fields(TopicColumns))


class SparkLoads:
    """Planning loads on executors; see `ClusterLoads` for what the methods promise.

    `loads` are those of `transforms.planning_loads`, `topics` is the table of a snapshot.
    """

    def __init__(self, loads: DataFrame, topics: DataFrame) -> None:
        self._loads, self._topics = loads, topics

    def namespace_totals(self) -> list[NamespaceTotal]:
        sums = (F.coalesce(F.sum(load), F.lit(0)).alias(load) for load in RESOURCE_COLUMNS)
        owned = F.count("owner").alias("owned")
        rows = self._loads.groupBy("namespace").agg(F.count("*").alias("bundles"), owned, *sums).collect()
        return [
            NamespaceTotal(
                row["namespace"], row["bundles"], row["owned"], tuple(row[load] for load in RESOURCE_COLUMNS)
            )
            for row in rows
        ]

    def bundles_above(self, sizes: Mapping[str, Sequence[float]], fewest_topics: int) -> list[Mapping[str, Any]]:
        if not sizes:
            return []
        columns = ", ".join(f"{load}_size double" for load in RESOURCE_COLUMNS)
        questions = self._loads.sparkSession.createDataFrame(
            [(namespace, *map(float, size)) for namespace, size in sizes.items()], f"namespace string, {columns}"
        )
        is_large = F.greatest(*(F.col(load) - F.col(f"{load}_size") for load in RESOURCE_COLUMNS)) > 0
        has_topics_to_part = F.col("topics") >= fewest_topics
        large = (
            self._loads.transform(plannable_bundles)
            .where(has_topics_to_part)
            .join(F.broadcast(questions), on="namespace", how="inner")
            .where(is_large)
            .select(*BUNDLE_COLUMNS)
        )
        return [row.asDict() for row in large.collect()]

    def find_cuts(self, boundaries: Mapping[str, int | None]) -> dict[str, Cut]:
        """Spark reads the topics of these bundles only, and one row a bundle comes back."""
        if not boundaries:
            return {}
        names = sorted(boundaries)
        columns = {
            "bundle": pa.array(names, pa.string()),
            "boundary": pa.array([boundaries[name] for name in names], pa.int64()),
        }
        wanted = self._topics.sparkSession.createDataFrame(pa.table(columns))
        rows = (
            self._topics.join(F.broadcast(wanted), on="bundle", how="inner")
            .transform(with_integer_loads)
            .withColumn("sessions", F.col("producers") + F.col("consumers"))
            .select("bundle", "boundary", *_TOPIC_COLUMNS)
            .groupBy("bundle")
            .applyInArrow(_cut_group, _CUTS)
            .toArrow()
            .to_pylist()
        )
        found = {row.pop("bundle"): Cut(**row | {"boundary_by": CutBasis(row["boundary_by"])}) for row in rows}
        unknown = {name: cut_bundle(name, NO_TOPICS, boundaries[name]) for name in names if name not in found}
        return found | {name: cut for name, cut in unknown.items() if cut is not None}

    def plan_pools(self, pools: PoolAssignment, plan: PoolPlanner) -> list[PlannedPool]:
        spark, names = self._loads.sparkSession, pool_names(pools)
        frames = (
            spark.createDataFrame(list(pools.pool_of_namespace.items()), "namespace string, namespace_pool string"),
            spark.createDataFrame(list(pools.pool_of_broker.items()), "owner string, owner_pool string"),
            spark.createDataFrame(list(enumerate(names)), "pool_number int, pool string"),
        )
        pooled = self._loads.transform(plannable_bundles).transform(by_pool, *frames)
        # By number, not by hash: a pool has a partition to itself, so that no two wait for each other.
        spread = pooled.repartitionById(max(len(names), 1), "pool_number")
        rows = spread.groupBy("pool_number").applyInArrow(_plan_group(plan), _POOL_PLANS).collect()
        return sorted((PlannedPool(**row.asDict()) for row in rows), key=lambda planned: planned.pool)

    def compute(self, function: Callable[[BundleColumns], Any]) -> Any:
        """One group, one executor, one value; the bundles never reach the driver."""
        bundles = self._loads.transform(plannable_bundles).select(F.lit(0).alias("everything"), *BUNDLE_COLUMNS)
        for row in bundles.groupBy("everything").applyInArrow(_compute_group(function), _VALUE).collect():
            if row["error"] is not None:
                raise decode_error(row["error"])
            return json.loads(row["value"])
        # Without a bundle there is no group, and nothing to be sent anywhere.
        return function(BundleColumns(**{name: [] for name in BUNDLE_COLUMNS}))  # type: ignore[arg-type]

    def placed(self, at_stake: BundlesAtStake) -> list[dict[str, Any]]:
        """The bundles that are not at stake are added up per broker and namespace."""
        is_at_stake = F.col("is_named") | F.col("is_whole")
        grouped = (
            self._loads.transform(_with_flag, "bundle", at_stake.bundles, "is_named")
            .transform(_with_flag, "namespace", at_stake.namespaces, "is_whole")
            .withColumn("at_stake", F.when(is_at_stake, F.col("bundle")))
            .where(F.col("owner").isNotNull() | F.col("at_stake").isNotNull())
            .groupBy("owner", "namespace", "state", "at_stake")
            .agg(F.max("version_id").alias("version_id"), *(F.sum(name).alias(name) for name in SUMMED_COLUMNS))
        )
        return [_named(row) for row in grouped.toArrow().to_pylist()]


def _with_flag(loads: DataFrame, key: str, values: Any, flag: str) -> DataFrame:
    names = sorted(values)
    columns = {key: pa.array(names, pa.string()), flag: pa.array([True] * len(names), pa.bool_())}
    return loads.join(F.broadcast(loads.sparkSession.createDataFrame(pa.table(columns))), on=key, how="left")


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A bundle at stake keeps its name; the sum of the others of a namespace gets one that no bundle has."""
    stand_in = f"{row['namespace']} {row['state']} on {row['owner']}"
    return row | {"bundle": row["at_stake"] or stand_in, "is_at_stake": row["at_stake"] is not None}


def _plan_group(plan: PoolPlanner) -> Callable[[pa.Table], pa.Table]:
    def plan_group(group: pa.Table) -> pa.Table:
        planned = plan(group["pool"][0].as_py(), bundle_columns(group))
        return pa.Table.from_pylist([asdict(planned)], schema=_arrow_schema(_POOL_PLANS))

    return plan_group


def _compute_group(function: Callable[[BundleColumns], Any]) -> Callable[[pa.Table], pa.Table]:
    def compute_group(group: pa.Table) -> pa.Table:
        value = error = None
        try:
            value = json.dumps(function(bundle_columns(group)), ensure_ascii=False, allow_nan=False)
        except EvenkeelError as stated:
            # As a value, or else Spark would bury the sentence in a trace of its own.
            error = encode_error(stated)
        return pa.table({"value": pa.array([value], pa.string()), "error": pa.array([error], pa.string())})

    return compute_group


def _cut_group(group: pa.Table) -> pa.Table:
    """Cut one bundle, given its topics."""
    name = group["bundle"][0].as_py()
    topics = TopicColumns(**{column: group[column].to_numpy() for column in _TOPIC_COLUMNS})
    cut = cut_bundle(name, topics, group["boundary"][0].as_py())
    rows = [] if cut is None else [{"bundle": name, **asdict(cut)}]
    return pa.Table.from_pylist(rows, schema=_arrow_schema(_CUTS))


def _arrow_schema(schema: StructType) -> pa.Schema:
    types = {StringType: pa.string(), LongType: pa.int64(), DoubleType: pa.float64()}
    return pa.schema([pa.field(field.name, types[type(field.dataType)]) for field in schema])
