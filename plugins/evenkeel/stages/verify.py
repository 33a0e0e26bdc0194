"""Take a snapshot after a run and compare it with what the plan predicted."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from evenkeel.adapters.broker_access import BrokerAccess
from evenkeel.adapters.cluster_reader import read_cluster
from evenkeel.adapters.cluster_source import open_cluster
from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.runs import RunStore
from evenkeel.adapters.snapshots import SnapshotContent, SnapshotStore
from evenkeel.execution.verification import Verification, verify_placement
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.moments import parse_time
from evenkeel.model.settings import Settings
from evenkeel.stages.realised_load import realised_load, reported_since

REPORT_POLL_S = 1.0


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
        realised_load(bundles, reported_since(ended_at, snapshots.read_table(manifest, "brokers"))),
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
        with open_cluster(connection, BrokerAccess.from_settings(settings)) as source:
            content = read_cluster(source, connection.cluster, settings, datetime.now(UTC))
        told = set(reported_since(moment, content.tables["brokers"])["broker_id"].to_pylist())
        if touched <= told or time.monotonic() > deadline_s:
            return content
        time.sleep(REPORT_POLL_S)
