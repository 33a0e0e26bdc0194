"""The hard rules of a plan, looked at by the planner's verifier.

The verifier wants the bundles that a plan names, all bundles of the anti-affinity groups that it touches, and the
load of everything else, of which it matters only who carries it and for which namespace. Spark adds that up, so the
driver holds a row a broker and namespace instead of a row a bundle, and the verifier still sees every byte.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from evenkeel.gates.loads import bundle_loads
from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.load import Resource
from evenkeel.model.plan import Step
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from evenkeel.planning.verifier import Violation

_SUMS = ("topics", "sessions", "msg_rate_millis", "throughput_in", "throughput_out", "cpu_millipercent")
_OF_RESOURCE = {
    Resource.CPU: "cpu_millipercent",
    Resource.BANDWIDTH_IN: "throughput_in",
    Resource.BANDWIDTH_OUT: "throughput_out",
}


class PlacedLoads:
    """The load of a snapshot: bundles at stake one by one, the others added up per broker and namespace."""

    def __init__(self, rows: Sequence[dict[str, Any]]) -> None:
        self._rows = rows
        self._by_bundle = {row["bundle"]: row for row in rows}
        self._used: Counter[tuple[str, str]] = Counter()
        for row in rows:
            if not is_system_namespace(row["namespace"]):
                for resource, name in _OF_RESOURCE.items():
                    self._used[row["owner"], str(resource)] += row[name]

    @classmethod
    def collect(
        cls,
        spark: SparkSession,
        bundles: DataFrame,
        brokers: Sequence[Broker],
        steps: Sequence[Step],
        policies: Policies,
    ) -> PlacedLoads:
        """Let Spark add up a snapshot for these steps."""
        from pyspark.sql import functions as F

        loads = bundle_loads(spark, bundles, brokers)
        grouped = (
            _mark_at_stake(spark, loads, steps, policies)
            .filter(F.col("owner").isNotNull() | F.col("at_stake").isNotNull())
            .groupBy("owner", "namespace", "at_stake")
            .agg(F.max("version_id").alias("version_id"), *(F.sum(name).alias(name) for name in _SUMS))
        )
        return cls([_named(row) for row in grouped.toArrow().to_pylist()])

    def knows(self, bundle: str) -> bool:
        return bundle in self._by_bundle

    def owner_of(self, bundle: str) -> str | None:
        """The owner of a bundle at stake; None where it has none, or the snapshot does not know it."""
        row = self._by_bundle.get(bundle)
        return None if row is None else row["owner"]

    def used(self, broker_id: str, resource: str) -> int:
        """What all bundles put on a broker, those apart that are never planned."""
        return self._used[broker_id, resource]

    def find_violations(
        self, steps: Sequence[Step], brokers: Sequence[Broker], policies: Policies, settings: Settings
    ) -> list[Violation]:
        """Every hard rule that the steps break."""
        from evenkeel.planning.columns import BundleColumns
        from evenkeel.planning.verifier import find_violations

        rows = [row for row in self._rows if row["is_at_stake"] or not is_system_namespace(row["namespace"])]
        names = ("bundle", "namespace", "owner", "version_id", *_SUMS)
        columns: dict[str, Any] = {name: [row[name] for row in rows] for name in names}
        return find_violations(steps, brokers, BundleColumns(**columns), policies, settings)


def _mark_at_stake(spark: SparkSession, loads: DataFrame, steps: Sequence[Step], policies: Policies) -> DataFrame:
    """Name in `at_stake` the bundles of the plan and of the anti-affinity groups that it touches."""
    from pyspark.sql import functions as F

    names = sorted({step.bundle for step in steps})
    touched = {policies.anti_affinity.get(name.rpartition("/")[0], "").lower() for name in names} - {""}
    namespaces = sorted(name for name, group in policies.anti_affinity.items() if group.lower() in touched)
    return (
        loads.join(F.broadcast(_flags(spark, "bundle", names, "is_named")), on="bundle", how="left")
        .join(F.broadcast(_flags(spark, "namespace", namespaces, "is_grouped")), on="namespace", how="left")
        .withColumn("at_stake", F.when(F.col("is_named") | F.col("is_grouped"), F.col("bundle")))
    )


def _flags(spark: SparkSession, key: str, values: Sequence[str], flag: str) -> DataFrame:
    import pyarrow as pa

    columns = {key: pa.array(values, pa.string()), flag: pa.array([True] * len(values), pa.bool_())}
    return spark.createDataFrame(pa.table(columns))


def _named(row: dict[str, Any]) -> dict[str, Any]:
    """A bundle at stake keeps its name; what stands for the rest of a namespace gets one that no bundle has."""
    stand_in = f"{row['namespace']} on {row['owner']}"
    return row | {"bundle": row["at_stake"] or stand_in, "is_at_stake": row["at_stake"] is not None}
