"""The cluster as the writer sees it: registrations, policies, kill switch, and watched bundles."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from kazoo.protocol.states import WatchedEvent

from evenkeel.adapters.json_documents import JsonObject
from evenkeel.adapters.namespaces_reader import LOCAL_POLICIES_PATH, parse_boundaries
from evenkeel.adapters.native_balancer import NativeBalancer
from evenkeel.adapters.ownership import decode_ephemeral
from evenkeel.adapters.policy_reader import CONFIGURATION_PATH
from evenkeel.adapters.zookeeper import Node, ZooKeeperSession
from evenkeel.adapters.zookeeper_reading import to_znode
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.observation import BundleView
from evenkeel.model.orders import Order
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState

TOGETHER_S = 0.008
EXTENSIBLE_LEADER = "/loadbalance/extension/leader"
MODULAR_LEADER = "/loadbalance/leader"


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
        native: NativeBalancer | None = None,
        leader_path: str = EXTENSIBLE_LEADER,
    ) -> None:
        self._session = session
        self._configuration = configuration
        self._connection = connection
        self._ownership = ownership
        self._native = native
        self._leader = f"{connection.pulsar_root}{leader_path}"
        self._changes: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._bundle_by_path: dict[str, str] = {}
        self._are_watches_gone = threading.Event()
        self._is_stop_watched = threading.Event()
        self._incarnations: dict[str, int | None] = {}
        self._registered_as_of: int | None = None
        self._draining: frozenset[str] = frozenset()
        self._drained_as_of: int | None = None

    def incarnations(self, brokers: Collection[str]) -> Mapping[str, int]:
        # The parent's pzxid moves whenever a broker registers or leaves, so one small answer proves all that is known.
        stat = self._session.stat(registration_path(self._connection.pulsar_root, "").rstrip("/"))
        as_of = None if stat is None else int(stat.pzxid)
        if as_of != self._registered_as_of:
            self._incarnations, self._registered_as_of = {}, as_of
        unknown = sorted(set(brokers) - set(self._incarnations))
        nodes = self._session.read([registration_path(self._connection.pulsar_root, broker) for broker in unknown])
        for broker, node in zip(unknown, nodes, strict=True):
            self._incarnations[broker] = None if node is None else int(node.stat.czxid)
        return {broker: found for broker in brokers if (found := self._incarnations[broker]) is not None}

    def changed_policies(self, planned: Mapping[str, int | None]) -> Sequence[str]:
        changed = []
        for session, is_own in ((self._session, True), (self._configuration, False)):
            mine = sorted(path for path in planned if self._is_local(path) == is_own)
            for path, node in zip(mine, session.read(mine), strict=True):
                if planned[path] not in self._versions(path, node):
                    changed.append(path)
        return changed

    def draining(self) -> frozenset[str]:
        # As with registrations: the parent's pzxid moves with every mark.
        home = f"{self._connection.home}/draining"
        stat = self._session.stat(home)
        as_of = None if stat is None else int(stat.pzxid)
        if as_of != self._drained_as_of:
            self._draining = frozenset(self._session.children(home))
            self._drained_as_of = as_of
        return self._draining

    def stopped_by(self) -> str | None:
        # Pulling the switch raises the fence too, so a late word of the watch lets no step through.
        if self._is_stop_watched.is_set():
            return None
        self._is_stop_watched.set()
        (node,) = self._session.read([f"{self._connection.home}/stop"], lambda event: self._is_stop_watched.clear())
        if node is None:
            return None
        self._is_stop_watched.clear()
        order = Order.decode(node.data)
        return f"{order.who}: {order.reason or 'no reason was given'}"

    def leader(self) -> str | None:
        (node,) = self._session.read([self._leader])
        return None if node is None else JsonObject.decode(node.data, self._leader).optional_text("brokerId")

    def boundaries(self, namespaces: Collection[str]) -> Mapping[str, frozenset[int]]:
        named = sorted(namespaces)
        paths = [f"{self._connection.pulsar_root}{LOCAL_POLICIES_PATH}/{namespace}" for namespace in named]
        found: dict[str, frozenset[int]] = {}
        for namespace, path, node in zip(named, paths, self._session.read(paths), strict=True):
            ranges = () if node is None else parse_boundaries(namespace, to_znode(path, (node.data, node.stat))).ranges
            found[namespace] = frozenset(end for part in ranges for end in (part.lower, part.upper))
        return found

    def look(self, bundles: Sequence[str]) -> Mapping[str, BundleView]:
        paths = [self._ownership.path(bundle) for bundle in bundles]
        self._bundle_by_path.update(zip(paths, bundles, strict=True))
        nodes = self._session.read(paths, self._on_change)
        return {
            bundle: BundleView(bundle, ServiceUnitState.INIT, None)
            if node is None
            else self._ownership.view(bundle, node)
            for bundle, node in zip(bundles, nodes, strict=True)
        }

    def next_changes(self, timeout_s: float) -> frozenset[str]:
        changed: set[str] = set()
        try:
            self._note(self._changes.get(timeout=timeout_s), changed)
            # A hand-over is several changes in a row: a moment's patience reads them as one.
            time.sleep(TOGETHER_S)
            while True:
                self._note(self._changes.get_nowait(), changed)
        except queue.Empty:
            return frozenset(changed)

    def _on_change(self, event: WatchedEvent) -> None:
        if event.path is not None:
            self._changes.put(event.path)
        elif not self._are_watches_gone.is_set():
            # kazoo drops its watches with the connection and says so, once for each, without a path.
            self._are_watches_gone.set()
            self._changes.put(None)

    def _note(self, path: str | None, changed: set[str]) -> None:
        if path is None:
            self._are_watches_gone.clear()
            changed.update(self._bundle_by_path.values())
        else:
            changed.add(self._bundle_by_path[path])

    def _versions(self, path: str, node: Node | None) -> frozenset[int | None]:
        """The versions of a node that mean the same to other hands as the one that it has now."""
        if self._native is not None and path == f"{self._connection.pulsar_root}{CONFIGURATION_PATH}":
            return self._native.equal_versions(node)
        return frozenset({None if node is None else int(node.stat.version)})

    def _is_local(self, path: str) -> bool:
        """Local policies and switches are in the cluster's own store, all other policies in the configuration store."""
        below = path.removeprefix(self._connection.pulsar_root)
        return below.startswith(f"{LOCAL_POLICIES_PATH}/") or below == CONFIGURATION_PATH


def registration_path(pulsar_root: str, broker: str) -> str:
    return f"{pulsar_root}/loadbalance/brokers/{broker}"
