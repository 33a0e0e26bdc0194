"""The gate between a snapshot and planning.

A snapshot of up to `MOST_BUNDLES_IN_PROCESS` bundles is judged in this process; a larger one by Great Expectations on
Spark. Both apply the same rules, and give the same verdict.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evenkeel import __version__
from evenkeel.gates.expected_checks import expect_of_snapshot
from evenkeel.model.errors import InputError
from evenkeel.model.load import whole
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState, PolicyDocument, SnapshotManifest
from evenkeel.model.verdict import Check, Subject, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyspark.sql import DataFrame

# A second and some hundred megabytes of one process; Spark takes longer than that to start.
MOST_BUNDLES_IN_PROCESS = 200_000


def judge_snapshot(manifest: SnapshotManifest, tables: Mapping[str, pa.Table], settings: Settings) -> Verdict:
    """Say whether a snapshot is complete, fresh and consistent enough to plan with."""
    from evenkeel.gates.suites import judge_tables

    owners = _sum_by_owner(tables["bundles"])
    namespaces = set(tables["bundles"]["namespace"].unique().to_pylist())
    return _judge(manifest, tables, owners, namespaces, settings, judge_tables)


def judge_snapshot_on_spark(
    manifest: SnapshotManifest, tables: Mapping[str, pa.Table], bundles: DataFrame, settings: Settings
) -> Verdict:
    """The same verdict for bundles that only Spark can hold; `tables` are the small ones."""
    from evenkeel.gates.spark_suites import judge_frames

    spark = bundles.sparkSession
    cached = bundles.persist()
    try:
        owners = _sum_by_owner_on_spark(cached)
        namespaces = {row["namespace"] for row in cached.select("namespace").distinct().collect()}
        return _judge(
            manifest,
            {**tables, "bundles": cached},
            owners,
            namespaces,
            settings,
            lambda suite, data, parameters: judge_frames(spark, suite, data, parameters),
        )
    finally:
        cached.unpersist()


def _judge(
    manifest: SnapshotManifest,
    tables: Mapping[str, Any],
    owners: pa.Table,
    namespaces: set[str],
    settings: Settings,
    judge_suite: Callable[[str, Mapping[str, Any], Mapping[str, Any]], list[Check]],
) -> Verdict:
    parameters = {
        "taken_at_epoch_s": manifest.taken_at.timestamp(),
        "broker_load_data_ttl_in_seconds": settings.broker_load_data_ttl_in_seconds,
        "brokers_without_report": list(manifest.brokers_without_report),
        "notes": list(manifest.notes),
        "known_pools": _count_known_pools(tables["brokers"], tables["policies"], namespaces),
    }
    data = {
        "brokers": _with_sums(tables["brokers"], owners),
        "bundles": tables["bundles"],
        "owners": _with_registration(owners, tables["brokers"]),
        "policies": tables["policies"],
    }
    gate = expect_of_snapshot(settings)
    checks = tuple(check for suite in gate.suites for check in judge_suite(suite, data, parameters))
    return Verdict(Subject.SNAPSHOT, manifest.snapshot_id, gate.suites, checks, __version__)


def _count_known_pools(brokers: pa.Table, policies: pa.Table, namespaces: set[str]) -> int:
    """How many pools have a namespace, and fresh load reports of all of their brokers."""
    from evenkeel.model.policies import Policies
    from evenkeel.planning.problem.pools import assign_pools, find_unreported, live_broker_ids

    rows = [Broker(**row) for row in brokers.to_pylist()]
    silent = find_unreported(rows)
    try:
        documents = [PolicyDocument(**row) for row in policies.to_pylist()]
        pools = assign_pools(namespaces, live_broker_ids(rows), Policies.from_documents(documents))
    except InputError:
        # A rule of its own reports a policy that cannot be read.
        return 0
    unknown = {pools.pool_of_broker[broker_id] for broker_id in silent}
    return len({pool for pool in pools.pool_of_namespace.values() if pool} - unknown)


def _sum_by_owner(bundles: pa.Table) -> pa.Table:
    """Each owner with its bundles and their throughput, in whole bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    owned = bundles.filter(pc.is_valid(bundles["owner"]))
    columns = {name: owned[name] for name in ("owner", "bundle")}
    for way in ("in", "out"):
        columns[f"{way}_bytes_per_s"] = pa.array(
            [whole(figure) for figure in owned[f"throughput_{way}_bytes_per_s"].to_pylist()], pa.int64()
        )
    summed = (
        pa.table(columns)
        .group_by("owner")
        .aggregate([([], "count_all"), ("bundle", "min"), ("in_bytes_per_s", "sum"), ("out_bytes_per_s", "sum")])
    )
    return _as_owners(summed.select(["owner", "count_all", "bundle_min", "in_bytes_per_s_sum", "out_bytes_per_s_sum"]))


def _sum_by_owner_on_spark(bundles: DataFrame) -> pa.Table:
    from pyspark.sql import functions as F

    from evenkeel_spark.transforms import columns

    summed = (
        bundles.where(F.col("owner").isNotNull())
        .groupBy("owner")
        .agg(
            F.count("*").alias("bundles"),
            F.min("bundle").alias("first_bundle"),
            F.sum(columns.whole(F.col("throughput_in_bytes_per_s"))).alias("in_bytes_per_s"),
            F.sum(columns.whole(F.col("throughput_out_bytes_per_s"))).alias("out_bytes_per_s"),
        )
    )
    return _as_owners(summed.toArrow())


def _as_owners(summed: pa.Table) -> pa.Table:
    from evenkeel.gates.snapshot_rules import OWNERS

    return summed.rename_columns(OWNERS.names[:-1])


def _with_registration(owners: pa.Table, brokers: pa.Table) -> pa.Table:
    """The owners with whether the table `brokers` calls them registered."""
    import pyarrow as pa

    registered: dict[str, bool] = {}
    for broker_id, incarnation, state in zip(
        *(brokers[name].to_pylist() for name in ("broker_id", "incarnation", "state")), strict=True
    ):
        is_registered = incarnation is not None or state != BrokerState.INACTIVE
        registered[broker_id] = registered.get(broker_id, False) or is_registered
    known = pa.array([registered.get(owner) for owner in owners["owner"].to_pylist()], pa.bool_())
    return owners.append_column("is_registered", known)


def _with_sums(brokers: pa.Table, owners: pa.Table) -> pa.Table:
    """The brokers with the throughput of their bundles."""
    import pyarrow as pa

    for way in ("in", "out"):
        sums = dict(zip(owners["owner"].to_pylist(), owners[f"{way}_bytes_per_s"].to_pylist(), strict=True))
        column = pa.array([sums.get(broker, 0) for broker in brokers["broker_id"].to_pylist()], pa.int64())
        brokers = brokers.append_column(f"bundles_{way}_bytes_per_s", column)
    return brokers
