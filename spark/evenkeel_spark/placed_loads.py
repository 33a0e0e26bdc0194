"""A cluster as the verifier has to see it to judge a plan, added up by Spark.

The verifier wants the bundles that a plan names, all bundles of the anti-affinity groups that it touches and of the
namespaces that it splits, and the load of everything else, of which it matters only who carries it and for which
namespace. So the driver holds a row a broker and namespace instead of a row a bundle, and the verifier still sees
every byte.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.errors import RefusedError
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.policies import Policies
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.rules.verifier import find_violations
from evenkeel_spark.cuts import cuts_of
from evenkeel_spark.transforms.transfers import PlanningInputs

_SUMS = ("topics", "sessions", "msg_rate_millis", "throughput_in", "throughput_out", "cpu_millipercent")


def collect_placed_loads(loads: DataFrame, steps: Sequence[Step], policies: Policies) -> list[dict[str, Any]]:
    """The rows of the planning loads that matter for these steps: bundles at stake one by one, the others as sums."""
    grouped = (
        loads.transform(_mark_at_stake, steps, policies)
        .where(F.col("owner").isNotNull() | F.col("at_stake").isNotNull())
        .groupBy("owner", "namespace", "state", "at_stake")
        .agg(F.max("version_id").alias("version_id"), *(F.sum(name).alias(name) for name in _SUMS))
    )
    return [_named(row) for row in grouped.toArrow().to_pylist()]


def as_columns(rows: Sequence[dict[str, Any]]) -> BundleColumns:
    """The rows as the verifier takes them; of the system's namespaces only what the steps name."""
    counted = [row for row in rows if row["is_at_stake"] or not is_system_namespace(row["namespace"])]
    names = ("bundle", "namespace", "owner", "version_id", "state", *_SUMS)
    columns: dict[str, Any] = {name: [row[name] for row in counted] for name in names}
    return BundleColumns(**columns)


def require_legal(loads: DataFrame, topics: DataFrame, steps: Sequence[Step], inputs: PlanningInputs) -> None:
    """Refuse a plan that breaks a hard rule; that is never the user's fault."""
    bundles = as_columns(collect_placed_loads(loads, steps, inputs.policies))
    cuts = cuts_of(topics, steps)
    broken = find_violations(steps, inputs.brokers, bundles, inputs.policies, inputs.settings, cuts)
    if broken:
        first = broken[0]
        where = "" if first.order is None else f" in step {first.order}"
        others = f", and {len(broken) - 1} more" if len(broken) > 1 else ""
        raise RefusedError(
            f"the planner made a plan that breaks the rule {first.rule}{where} ({first.detail}){others}",
            "report this as a bug, with the snapshot; nothing was written",
        )


def _mark_at_stake(loads: DataFrame, steps: Sequence[Step], policies: Policies) -> DataFrame:
    """Name in `at_stake` the bundles that the verifier has to see one by one."""
    names = sorted({step.bundle for step in steps})
    touched = {policies.anti_affinity.get(_namespace(name), "").lower() for name in names} - {""}
    grouped = {name for name, group in policies.anti_affinity.items() if group.lower() in touched}
    split = {_namespace(step.bundle) for step in steps if step.kind == StepKind.SPLIT}
    return (
        loads.transform(_with_flag, "bundle", names, "is_named")
        .transform(_with_flag, "namespace", sorted(grouped | split), "is_whole")
        .withColumn("at_stake", F.when(F.col("is_named") | F.col("is_whole"), F.col("bundle")))
    )


def _namespace(bundle: str) -> str:
    return bundle.rpartition("/")[0]


def _with_flag(loads: DataFrame, key: str, values: Sequence[str], flag: str) -> DataFrame:
    columns = {key: pa.array(values, pa.string()), flag: pa.array([True] * len(values), pa.bool_())}
    flags = loads.sparkSession.createDataFrame(pa.table(columns))
    return loads.join(F.broadcast(flags), on=key, how="left")


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A bundle at stake keeps its name; what stands for the rest of a namespace gets one that no bundle has."""
    stand_in = f"{row['namespace']} {row['state']} on {row['owner']}"
    return row | {"bundle": row["at_stake"] or stand_in, "is_at_stake": row["at_stake"] is not None}
