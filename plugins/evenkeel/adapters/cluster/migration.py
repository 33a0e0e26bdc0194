"""A migration of the cluster's metadata to another store (PIP-454), which makes this ZooKeeper the wrong place.

While the metadata is prepared and copied, brokers refuse to write it. Once the migration is completed, they read and
write the other store only, although this one stays reachable and looks alive: a step written here would reach nobody.

The node that tells the phase exists only on clusters that were ever migrated, and is never created from here. A
transaction checks the node's version where it exists. That it does not exist cannot be checked, so it is watched.
"""

from __future__ import annotations

import threading

from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.zookeeper.nodes import Operation, ZNode, ZNodeTree, check
from evenkeel.adapters.zookeeper.paths import PulsarPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.errors import RefusedError

COMPLETED = "COMPLETED"
HARMLESS_PHASES = frozenset({"NOT_STARTED", "FAILED"})
BEGAN = "a migration of the cluster's metadata has begun"


def require_no_migration(tree: ZNodeTree, paths: PulsarPaths) -> str | None:
    """Refuse a cluster whose metadata is being migrated, or was; returns a note on a migration that does no harm."""
    (node,) = tree.get([paths.migration])
    return None if node is None else _judge(node)


class MigrationGuard:
    """Keeps a writer from writing to a store that brokers are leaving."""

    def __init__(self, session: ZooKeeperSession, paths: PulsarPaths) -> None:
        self._session = session
        self._path = paths.migration
        self._is_watched = threading.Event()
        self._version: int | None = None

    def require_none(self) -> None:
        """Raise if a migration forbids writing; reads only what has changed since the last call."""
        if self._is_watched.is_set():
            return
        self._is_watched.set()
        (node,) = self._session.get([self._path], lambda event: self._is_watched.clear())
        self._version = None if node is None else node.version
        if node is not None:
            try:
                _judge(node)
            except RefusedError:
                self._is_watched.clear()
                raise

    def proofs(self) -> list[Operation]:
        """What a transaction checks: that the phase is still the one that was read."""
        self.require_none()
        return [] if self._version is None else [check("migration", self._path, self._version)]


def _judge(node: ZNode) -> str:
    """What a harmless phase is worth a note; any other phase, an unknown one too, is refused."""
    document = JsonObject.decode(node.data, node.path)
    phase, target = document.text("phase"), document.optional_text("targetUrl") or "another store"
    if phase in HARMLESS_PHASES:
        return f"a migration of the cluster's metadata to {target} is in phase {phase} ({node.path})"
    if phase == COMPLETED:
        raise RefusedError(
            f"the cluster's metadata was migrated to {target}: its brokers no longer read this ZooKeeper",
            "Evenkeel needs a cluster whose metadata is in ZooKeeper",
        )
    raise RefusedError(
        f"the cluster's metadata is being migrated to {target} (phase {phase})", "wait until the migration has ended"
    )
