"""The small tables of a snapshot, brokers and policies, which a driver may hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.adapters.lake import Lake, from_arrow
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import Broker, PolicyDocument, SnapshotManifest


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
    def policy_versions(self) -> dict[str, int | None]:
        """The versions of the policies' nodes, for those documents that lie in one; null where a node was absent."""
        return {d.path: d.znode_version for d in self.policy_documents if d.path is not None}


def read_cluster(lake: Lake, cluster: str, snapshot_id: str) -> Cluster:
    """Read a snapshot's brokers and policies, proved to be those that its manifest names."""
    store = SnapshotStore(lake)
    manifest = store.load(cluster, snapshot_id)
    brokers = from_arrow(Broker, store.read_table(manifest, "brokers"), lake.uri_of(manifest.tables["brokers"].path))
    documents = from_arrow(
        PolicyDocument, store.read_table(manifest, "policies"), lake.uri_of(manifest.tables["policies"].path)
    )
    return Cluster(manifest, brokers, documents)
