"""The cluster as the writer sees it: registrations, policies, kill switch, and watched bundles."""

from __future__ import annotations

import queue
from collections.abc import Collection, Mapping, Sequence
from functools import partial
from typing import Protocol

from kazoo.protocol.states import WatchedEvent

from evenkeel.adapters.ownership import decode_ephemeral
from evenkeel.adapters.zookeeper import Node, ZooKeeperSession
from evenkeel.adapters.zookeeper_reading import to_znode
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.observation import BundleView
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState


class Ownership(Protocol):
    """Where a kind of cluster keeps the owner of a bundle, and how it is read there."""

    def path(self, bundle: str) -> str: ...

    def view(self, bundle: str, node: Node) -> BundleView: ...


class ServiceUnitOwnership:
    """Owners under /service_unit_state, as the extensible load manager keeps them in the metadata store."""

    def __init__(self, pulsar_root: str) -> None:
        self._root = f"{pulsar_root}/service_unit_state"

    def path(self, bundle: str) -> str:
        return f"{self._root}/{bundle}"

    def view(self, bundle: str, node: Node) -> BundleView:
        record = ServiceUnitRecord.decode(node.data, self.path(bundle))
        return BundleView(bundle, record.state, record.owner, node.stat.version, record)


class EphemeralOwnership:
    """Owners under /namespace, as the modular load manager keeps them: the node names the owner's addresses."""

    def __init__(self, pulsar_root: str, broker_by_url: Mapping[str, str]) -> None:
        self._root = f"{pulsar_root}/namespace"
        self._broker_by_url = broker_by_url

    def path(self, bundle: str) -> str:
        return f"{self._root}/{bundle}"

    def view(self, bundle: str, node: Node) -> BundleView:
        claim = decode_ephemeral(to_znode(self.path(bundle), (node.data, node.stat)), self._broker_by_url)
        return BundleView(bundle, claim.state, claim.owner, node.stat.version)


class ZooKeeperClusterView:
    """A live cluster, read through one session."""

    def __init__(
        self,
        session: ZooKeeperSession,
        configuration: ZooKeeperSession,
        connection: ClusterConnection,
        ownership: Ownership,
    ) -> None:
        self._session = session
        self._configuration = configuration
        self._connection = connection
        self._ownership = ownership
        self._changes: queue.SimpleQueue[str] = queue.SimpleQueue()

    def incarnations(self, brokers: Collection[str]) -> Mapping[str, int]:
        named = sorted(brokers)
        nodes = self._session.read([registration_path(self._connection.pulsar_root, broker) for broker in named])
        return {broker: node.stat.czxid for broker, node in zip(named, nodes, strict=True) if node is not None}

    def policy_versions(self, paths: Sequence[str]) -> Mapping[str, int | None]:
        versions: dict[str, int | None] = {}
        for session, is_own in ((self._session, True), (self._configuration, False)):
            mine = [path for path in paths if self._is_local(path) == is_own]
            for path, node in zip(mine, session.read(mine), strict=True):
                versions[path] = None if node is None else node.stat.version
        return versions

    def is_stopped(self) -> bool:
        (node,) = self._session.read([f"{self._connection.home}/stop"])
        return node is not None

    def look(self, bundles: Sequence[str]) -> Mapping[str, BundleView]:
        by_path = {self._ownership.path(bundle): bundle for bundle in bundles}
        nodes = self._session.read(list(by_path), partial(self._on_change, by_path))
        return {
            bundle: BundleView(bundle, ServiceUnitState.INIT, None)
            if node is None
            else self._ownership.view(bundle, node)
            for bundle, node in zip(by_path.values(), nodes, strict=True)
        }

    def next_changes(self, timeout_s: float) -> frozenset[str]:
        changed = set()
        try:
            changed.add(self._changes.get(timeout=timeout_s))
            while True:
                changed.add(self._changes.get_nowait())
        except queue.Empty:
            return frozenset(changed)

    def _on_change(self, by_path: Mapping[str, str], event: WatchedEvent) -> None:
        # kazoo drops its watches with the connection and says so without a path: then all must be looked at again.
        for bundle in [by_path[event.path]] if event.path in by_path else by_path.values():
            self._changes.put(bundle)

    def _is_local(self, path: str) -> bool:
        """Local policies and switches are in the cluster's own store, all other policies in the configuration store."""
        below = path.removeprefix(self._connection.pulsar_root)
        return below.startswith("/admin/local-policies/") or below == "/admin/configuration"


def registration_path(pulsar_root: str, broker: str) -> str:
    return f"{pulsar_root}/loadbalance/brokers/{broker}"
