"""What a request looks back on, read from the lake without Spark: snapshots, and the small tables of the newest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.model.policies import Policies, PolicyVersion, policy_versions
from evenkeel.model.snapshot import Broker, PolicyDocument, SnapshotManifest


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


@dataclass(frozen=True, slots=True)
class Cluster:
    """A snapshot without its bundles and topics."""

    manifest: SnapshotManifest
    brokers: Sequence[Broker]
    policy_documents: Sequence[PolicyDocument]

    @property
    def policies(self) -> Policies:
        return Policies.from_documents(self.policy_documents)

    @property
    def policy_versions(self) -> dict[str, PolicyVersion | None]:
        """The versions of the policies' nodes, for those documents that lie in one; None where a node was absent."""
        return policy_versions(self.policy_documents)


def read_cluster(lake: Lake, cluster: str, snapshot_id: str) -> Cluster:
    """Read a snapshot's brokers and policies, proved to be those that its manifest names."""
    store = SnapshotStore(lake)
    manifest = store.load(cluster, snapshot_id)
    brokers = from_arrow(Broker, store.read_table(manifest, "brokers"), lake.uri_of(manifest.tables["brokers"].path))
    documents = from_arrow(
        PolicyDocument, store.read_table(manifest, "policies"), lake.uri_of(manifest.tables["policies"].path)
    )
    return Cluster(manifest, brokers, documents)
