"""Take a snapshot of a cluster, or import one from plain files, into the lake."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.cluster.reader import read_cluster
from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.adapters.plain_files.importer import import_files
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SnapshotManifest
from evenkeel.stages.last_known_load import with_last_known_load


def take_snapshot(lake: Lake, connection: ClusterConnection, settings: Settings) -> SnapshotManifest:
    """Read a live cluster and store what was found."""
    return SnapshotStore(lake).write(with_last_known_load(lake, read_snapshot(connection, settings)))


def read_snapshot(connection: ClusterConnection, settings: Settings) -> SnapshotContent:
    """Read a live cluster; nothing is stored."""
    taken_at = datetime.now(UTC)
    with open_cluster(connection, BrokerAccess.from_settings(settings)) as source:
        return read_cluster(source, connection.cluster, settings, taken_at)


def import_snapshot(
    lake: Lake, brokers: Path, bundles: Path, policies: Path | None, cluster: str, taken_at: datetime
) -> SnapshotManifest:
    """Store a cluster that is described by plain files, for what-if planning."""
    return SnapshotStore(lake).write(import_files(brokers, bundles, policies, cluster, taken_at))
