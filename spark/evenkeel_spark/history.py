"""The snapshots that a request looks back on, found by their manifests alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.model.snapshot import SnapshotManifest


@dataclass(frozen=True, slots=True)
class History:
    """Committed snapshots of one cluster, newest first; the first is the one that was asked for."""

    manifests: Sequence[SnapshotManifest]

    @property
    def now(self) -> SnapshotManifest:
        return self.manifests[0]

    @property
    def snapshot_ids(self) -> list[str]:
        return [manifest.snapshot_id for manifest in self.manifests]


def find_history(lake: Lake, cluster: str, snapshot_id: str, days: float) -> History:
    """The snapshot that was asked for, and all complete ones of the days before it."""
    store = SnapshotStore(lake)
    now = store.load(cluster, snapshot_id)
    start = now.taken_at - timedelta(days=days)
    near = [store.load(cluster, other) for other in store.ids(cluster) if _may_lie_between(other, start, now.taken_at)]
    # An id is cut to whole seconds, a manifest is exact.
    in_reach = [manifest for manifest in near if manifest.taken_at >= start and _moment(manifest) < _moment(now)]
    complete = [manifest for manifest in in_reach if not is_incomplete(manifest)]
    return History([now, *sorted(complete, key=_moment, reverse=True)])


def is_incomplete(manifest: SnapshotManifest) -> bool:
    """Whether some broker's load was missing or old: as history, its zeros would pass for a quiet hour."""
    return bool(manifest.brokers_without_report or manifest.brokers_with_stale_report)


def _moment(manifest: SnapshotManifest) -> tuple[datetime, str]:
    return manifest.taken_at, manifest.snapshot_id


def _may_lie_between(snapshot_id: str, start: datetime, end: datetime) -> bool:
    """Whether an id, which begins with its second, can belong to the history; saves reading all other manifests."""
    first, last = (f"{moment.astimezone(UTC):%Y%m%dT%H%M%SZ}" for moment in (start, end))
    return first <= snapshot_id.partition("-")[0] <= last
