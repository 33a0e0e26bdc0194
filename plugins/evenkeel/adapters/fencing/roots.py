"""The places in ZooKeeper where Evenkeel keeps nodes of one cluster: there must be one only.

Writers below two roots share neither a fence nor a kill switch, so each would work past the other's. A root that holds
another Pulsar cluster of the same name is no second root: the node `pulsar-root` says which cluster the nodes belong
to. Without that node, as earlier versions left it, a root counts as this cluster's.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from evenkeel.adapters.zookeeper.nodes import Operation, TransactionRefusedError, create
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.connection import DEFAULT_EVENKEEL_ROOT, ClusterConnection
from evenkeel.model.errors import EvenkeelError, InputError, RefusedError, UnconfirmedError

log = logging.getLogger(__name__)


class EvenkeelRoots:
    """All roots that hold nodes of one cluster, as far as they can be found.

    Looked at are the root of ZooKeeper, Pulsar's root, the folder of the configured root and the default root, each
    with its children.
    """

    def __init__(self, session: ZooKeeperSession, connection: ClusterConnection) -> None:
        self._session = session
        self._connection = connection
        self._own = EvenkeelPaths(connection.home)

    def find_others(self) -> list[str]:
        """The roots, other than the configured one, that hold a fence of this cluster."""
        homes = {root: EvenkeelPaths(f"{root}/{self._connection.cluster}") for root in self._list_candidates()}
        stats = self._session.stats([paths.fence for paths in homes.values()])
        fenced = [root for root, stat in zip(homes, stats, strict=True) if stat is not None]
        return [root for root in fenced if self._read_owner(homes[root]) in (None, self._pulsar_root)]

    def require_only_one(self) -> None:
        """Refuse beside another root of this cluster, and below a root that belongs to another cluster."""
        owner = self._read_owner(self._own)
        if owner not in (None, self._pulsar_root):
            raise RefusedError(
                f"{self._own.home} belongs to the cluster below Pulsar's root {owner}, not to the one below "
                f"{self._pulsar_root}",
                "give this cluster an --evenkeel-root of its own",
            )
        if others := self.find_others():
            raise two_roots_error(self._connection, others)

    def claim(self, proofs: Sequence[Operation]) -> None:
        """Record which cluster the configured root belongs to, if the fence's proofs hold; an earlier record stands."""
        if self._session.stat(self._own.pulsar_root) is not None:
            return
        record = create("root", self._own.pulsar_root, self._pulsar_root.encode())
        try:
            self._session.commit([*proofs, record])
        except (TransactionRefusedError, UnconfirmedError) as error:
            # The next writer records it; until then the root counts as this cluster's anyway.
            log.warning("%s is not written: %s", self._own.pulsar_root, error)

    @property
    def _pulsar_root(self) -> str:
        return self._connection.pulsar_root or "/"

    def _list_candidates(self) -> list[str]:
        own = self._connection.evenkeel_root
        folders = sorted({"", self._connection.pulsar_root, own.rpartition("/")[0], DEFAULT_EVENKEEL_ROOT})
        found = set(folders)
        for folder in folders:
            found |= {f"{folder}/{name}" for name in self._list(folder or "/")}
        return sorted(found - {own})

    def _list(self, folder: str) -> Sequence[str]:
        try:
            return self._session.child_names(folder)
        except InputError:
            # Whoever may not list a folder cannot have put a root there.
            return ()

    def _read_owner(self, paths: EvenkeelPaths) -> str | None:
        """The Pulsar root that a home belongs to; None where that is not recorded, or may not be read."""
        try:
            (node,) = self._session.get([paths.pulsar_root])
        except InputError:
            return None
        return None if node is None else node.data.decode(errors="replace")


def two_roots_error(connection: ClusterConnection, others: Sequence[str]) -> EvenkeelError:
    other = others[0] or "/"
    return RefusedError(
        f"cluster {connection.cluster!r} has two Evenkeel roots, {connection.evenkeel_root or '/'} and {other}: a kill "
        "switch below one does not stop writers below the other",
        f"use --evenkeel-root {other}, or delete {others[0]}/{connection.cluster} if nothing uses it any more; if it "
        f"belongs to another cluster of that name, write Pulsar's root of that cluster into "
        f"{others[0]}/{connection.cluster}/pulsar-root",
    )
