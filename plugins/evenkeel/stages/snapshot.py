"""Take a snapshot of a cluster, or import one from plain files, into the lake."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from evenkeel.adapters.broker_access import BrokerAccess
from evenkeel.adapters.cluster_reader import read_cluster
from evenkeel.adapters.cluster_source import open_cluster
from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plain_files import import_files
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SnapshotManifest


def take_snapshot(lake: Lake, connection: ClusterConnection, settings: Settings) -> SnapshotManifest:
    """Read a running cluster and store what was found."""
    taken_at = datetime.now(UTC)
    with open_cluster(connection, BrokerAccess.from_settings(settings)) as source:
        content = read_cluster(source, connection.cluster, settings, taken_at)
    return SnapshotStore(lake).write(content)


def import_snapshot(
    lake: Lake, brokers: Path, bundles: Path, policies: Path | None, cluster: str, taken_at: datetime
) -> SnapshotManifest:
    """Store a cluster that is described by plain files, for what-if planning."""
    return SnapshotStore(lake).write(import_files(brokers, bundles, policies, cluster, taken_at))
