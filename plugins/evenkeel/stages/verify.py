"""Take a snapshot after a run and compare it with what the plan predicted."""

from __future__ import annotations

import time
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.adapters.cluster_reader import read_cluster
from evenkeel.adapters.cluster_source import open_cluster
from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.runs import RunStore
from evenkeel.adapters.snapshots import SnapshotContent, SnapshotStore
from evenkeel.execution.verification import Verification, verify_placement
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.load import MILLI, Resource
from evenkeel.model.moments import parse_time
from evenkeel.model.settings import Settings

REPORT_POLL_S = 1.0
_THROUGHPUTS = {
    Resource.BANDWIDTH_IN: "throughput_in_bytes_per_s",
    Resource.BANDWIDTH_OUT: "throughput_out_bytes_per_s",
}


def verify_run(lake: Lake, run: str, connection: ClusterConnection, settings: Settings) -> Verification:
    """Snapshot the cluster again, compare, and keep the comparison with the run."""
    runs, plans, snapshots = RunStore(lake), PlanStore(lake), SnapshotStore(lake)
    record = runs.load(run)
    stored = plans.load(record.plan_id)
    touched = {broker for result in record.results for broker in (result.source, result.destination) if broker}
    ended_at = parse_time(record.ended_at)
    manifest = snapshots.write(_read_after(ended_at, touched, connection, settings))
    bundles = snapshots.read_table(manifest, "bundles")
    verification = verify_placement(
        record,
        stored.steps,
        stored.brokers,
        manifest.snapshot_id,
        dict(zip(bundles["bundle"].to_pylist(), bundles["owner"].to_pylist(), strict=True)),
        _realised_load(bundles, _reported_since(ended_at, snapshots.read_table(manifest, "brokers"))),
    )
    runs.write_verification(record.run_id, manifest.snapshot_id, verification.to_json())
    return verification


def _read_after(
    moment: datetime, touched: set[str], connection: ClusterConnection, settings: Settings
) -> SnapshotContent:
    """Read the cluster once the brokers of a run have told of their load anew, or have had time enough to do so.

    A modular broker whose load changed by less than a tenth is silent for minutes; its load then stays unknown.
    """
    deadline_s = time.monotonic() + settings.verify_wait_s
    while True:
        with open_cluster(connection) as source:
            content = read_cluster(source, connection.cluster, settings, datetime.now(UTC))
        told = set(_reported_since(moment, content.tables["brokers"])["broker_id"].to_pylist())
        if touched <= told or time.monotonic() > deadline_s:
            return content
        time.sleep(REPORT_POLL_S)


def _reported_since(moment: datetime, brokers: pa.Table) -> pa.Table:
    return brokers.filter(pc.greater_equal(brokers["reported_at"], pa.scalar(moment, pa.timestamp("us", "UTC"))))


def _realised_load(bundles: pa.Table, brokers: pa.Table) -> dict[tuple[str, str], int]:
    """The load of these brokers in the planner's units: their bundles' traffic, and their measured cpu."""
    load: dict[tuple[str, str], int] = {}
    for broker, usage in zip(brokers["broker_id"].to_pylist(), brokers["cpu_usage_percent"].to_pylist(), strict=True):
        if usage is not None:
            load[broker, Resource.CPU] = round(usage * MILLI)
        load |= {(broker, resource): 0 for resource in _THROUGHPUTS}
    owned = bundles.filter(pc.is_valid(bundles["owner"]))
    sums = owned.group_by("owner").aggregate([(column, "sum") for column in _THROUGHPUTS.values()])
    for resource, column in _THROUGHPUTS.items():
        for broker, total in zip(sums["owner"].to_pylist(), sums[f"{column}_sum"].to_pylist(), strict=True):
            if (broker, resource) in load:
                load[broker, resource] = round(total)
    return load
