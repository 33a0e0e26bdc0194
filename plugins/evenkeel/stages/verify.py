"""Take a snapshot after a run and compare it with what the plan predicted."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.runs import RunStore
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.execution.verification import Verification, verify_placement
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.load import MILLI, Resource
from evenkeel.model.settings import Settings
from evenkeel.stages.snapshot import take_snapshot

_THROUGHPUTS = {
    Resource.BANDWIDTH_IN: "throughput_in_bytes_per_s",
    Resource.BANDWIDTH_OUT: "throughput_out_bytes_per_s",
}


def verify_run(lake: Lake, run: str, connection: ClusterConnection, settings: Settings) -> Verification:
    """Snapshot the cluster again, compare, and keep the comparison with the run."""
    runs, plans, snapshots = RunStore(lake), PlanStore(lake), SnapshotStore(lake)
    record = runs.load(run)
    stored = plans.load(record.plan_id)
    manifest = take_snapshot(lake, connection, settings)
    bundles = snapshots.read_table(manifest, "bundles")
    verification = verify_placement(
        record,
        stored.steps,
        stored.brokers,
        manifest.snapshot_id,
        dict(zip(bundles["bundle"].to_pylist(), bundles["owner"].to_pylist(), strict=True)),
        _realised_load(bundles, snapshots.read_table(manifest, "brokers")),
    )
    runs.write_verification(record.run_id, manifest.snapshot_id, verification.to_json())
    return verification


def _realised_load(bundles: pa.Table, brokers: pa.Table) -> dict[tuple[str, str], int]:
    """The load of each broker that reports, in the planner's units: its bundles' traffic, and its measured cpu."""
    load: dict[tuple[str, str], int] = {}
    brokers = brokers.filter(pc.is_valid(brokers["reported_at"]))
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
