"""A cluster as the page shows it: balance now, what operators have ordered, and when the next windows open."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from statistics import pstdev
from typing import Any

from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.gates.expected_checks import expect_of_snapshot
from evenkeel.model.errors import EvenkeelError
from evenkeel.model.load import RESOURCES, Resource
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, SnapshotManifest
from evenkeel.model.timestamps import format_time
from evenkeel.model.verdict import Subject
from evenkeel.orchestration.connection import ClusterAccess
from evenkeel.web.live_state import read_live

# Half a day of snapshots, one every five minutes: what is older is not "now".
MOST_SNAPSHOTS_READ = 144
MOST_WINDOWS = 5
COLUMNS: Mapping[Resource, tuple[str, str]] = {
    Resource.CPU: ("cpu_usage_percent", "cpu_limit_percent"),
    Resource.BANDWIDTH_IN: ("bandwidth_in_usage_kbps", "bandwidth_in_limit_kbps"),
    Resource.BANDWIDTH_OUT: ("bandwidth_out_usage_kbps", "bandwidth_out_limit_kbps"),
}
log = logging.getLogger(__name__)


def describe_cluster(access: ClusterAccess, can_edit: bool, dag_id: str) -> dict[str, Any]:
    """Everything about a cluster that is not about one plan."""
    now = datetime.now(UTC)
    windows, complaint = _describe_windows(access, now)
    return {
        "cluster": access.cluster,
        "dag_id": dag_id,
        "can_edit": can_edit,
        "now": format_time(now),
        "snapshot": _describe_snapshot(access),
        "live": read_live(access.connection).to_json(),
        "windows": windows,
        "windows_error": complaint,
    }


def find_gated_snapshot(lake: Lake, cluster: str, settings: Settings) -> SnapshotManifest | None:
    """The newest snapshot that passed its gate; None where none of the last half day has."""
    snapshots, gate = SnapshotStore(lake), expect_of_snapshot(settings)
    for snapshot_id in islice(snapshots.newest_first(cluster), MOST_SNAPSHOTS_READ):
        try:
            manifest = snapshots.load(cluster, snapshot_id)
            verdict = snapshots.read_verdict(manifest, settings)
            if verdict is None:
                continue
            verdict.require_from(gate, Subject.SNAPSHOT, snapshot_id)
        except EvenkeelError as error:
            log.info("snapshot %s is passed over: %s", snapshot_id, error)
            continue
        if verdict.passed:
            return manifest
    return None


def _describe_snapshot(access: ClusterAccess) -> dict[str, Any] | None:
    manifest = find_gated_snapshot(access.lake, access.cluster, access.settings)
    if manifest is None:
        return None
    try:
        brokers, balance = _measure(access.lake.uri, access.cluster, manifest.snapshot_id)
    except EvenkeelError as error:
        log.warning("snapshot %s cannot be shown: %s", manifest.snapshot_id, error)
        return None
    return {
        "snapshot_id": manifest.snapshot_id,
        "taken_at": format_time(manifest.taken_at),
        "load_manager": str(manifest.load_manager),
        "bundles": manifest.tables["bundles"].rows,
        "without_report": list(manifest.brokers_without_report),
        "brokers": brokers,
        "balance": balance,
    }


@lru_cache(maxsize=32)
def _measure(lake_uri: str, cluster: str, snapshot_id: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Each broker's share of its limits, and their mean and peak; a snapshot never changes, so it is read once."""
    lake = Lake(lake_uri)
    snapshots = SnapshotStore(lake)
    manifest = snapshots.load(cluster, snapshot_id)
    brokers: list[Broker] = from_arrow(Broker, snapshots.read_table(manifest, "brokers"), snapshot_id)
    owners = snapshots.read_table(manifest, "bundles").column("owner").value_counts().to_pylist()
    bundles = {each["values"]: each["counts"] for each in owners}
    rows = [
        {
            "broker": broker.broker_id,
            "state": broker.state,
            "version": broker.version,
            "failure_domain": broker.failure_domain,
            "bundles": bundles.get(broker.broker_id, 0),
            **{str(resource): _share(broker, resource) for resource in RESOURCES},
        }
        for broker in sorted(brokers, key=lambda broker: broker.broker_id)
    ]
    return rows, {str(resource): _spread([row[str(resource)] for row in rows]) for resource in RESOURCES}


def _share(broker: Broker, resource: Resource) -> float | None:
    usage, limit = (getattr(broker, name) for name in COLUMNS[resource])
    return None if usage is None or not limit else float(usage / limit)


def _spread(shares: Sequence[float | None]) -> dict[str, float] | None:
    known = [share for share in shares if share is not None]
    if not known:
        return None
    mean, peak = sum(known) / len(known), max(known)
    return {"mean": mean, "max": peak, "std": pstdev(known), "max_over_mean": peak / mean if mean else 1.0}


def _describe_windows(access: ClusterAccess, now: datetime) -> tuple[list[dict[str, Any]], str | None]:
    try:
        return [window.describe(now) for window in islice(access.windows.judged(now), MOST_WINDOWS)], None
    except EvenkeelError as error:
        return [], str(error)
