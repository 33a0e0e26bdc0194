"""The cluster as the writer sees it: registrations, policies, kill switch, and the bundles that it watches."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence

from kazoo.protocol.states import WatchedEvent

from evenkeel.adapters.brokers.broker_http import BrokerHttp
from evenkeel.adapters.cluster.json_documents import JsonObject
from evenkeel.adapters.cluster.namespaces_reader import parse_boundaries
from evenkeel.adapters.cluster.ownership import OwnershipNodes, fetch_owned, list_namespaces, ownership_nodes
from evenkeel.adapters.cluster.registrations import Registration, incarnation_of, web_urls_of
from evenkeel.adapters.fencing.native_balancer import NativeBalancer
from evenkeel.adapters.zookeeper.nodes import ZNode
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.directives import Directive
from evenkeel.model.errors import UnavailableError
from evenkeel.model.observation import BundleView
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.snapshot import LoadManager

# A hand-over is several changes in a row; waiting this long reads them as one.
TOGETHER_S = 0.008
OWNERS_ATTEMPTS = 10
OWNERS_RETRY_DELAY_S = 1.0
OWNERS_POLL_S = 0.5


class ZooKeeperClusterView:
    """A live cluster, read through one session."""

    def __init__(
        self,
        session: ZooKeeperSession,
        configuration: ZooKeeperSession,
        connection: ClusterConnection,
        kind: LoadManager,
        ownership: OwnershipNodes,
        native: NativeBalancer | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        self._session = session
        self._warnings = tuple(warnings)
        self._configuration = configuration
        self._pulsar = PulsarPaths.of(connection)
        self._evenkeel = EvenkeelPaths(connection.home)
        self._leader = self._pulsar.leader(kind)
        self._cluster = connection.cluster
        self._kind = kind
        self._ownership = ownership
        self._native = native
        self._changes: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._bundle_by_path: dict[str, str] = {}
        self._are_watches_gone = threading.Event()
        self._is_stop_watched = threading.Event()
        self._draining: frozenset[str] = frozenset()
        self._drained_as_of: int | None = None

    def incarnations(self, brokers: Collection[str]) -> Mapping[str, int]:
        named = sorted(set(brokers))
        nodes = self._session.get([self._pulsar.broker(broker) for broker in named])
        return {
            broker: incarnation_of(node, self._kind is LoadManager.MODULAR)
            for broker, node in zip(named, nodes, strict=True)
            if node is not None
        }

    def changed_policies(self, planned: Mapping[str, PolicyVersion | None]) -> Sequence[str]:
        changed = []
        for session, is_own in ((self._session, True), (self._configuration, False)):
            mine = sorted(path for path in planned if self._is_local(path) == is_own)
            for path, node in zip(mine, session.get(mine), strict=True):
                if not self._is_same(path, planned[path], node):
                    changed.append(path)
        return [*changed, *self._find_new_domains(planned)]

    def changed_groups(self, planned: Mapping[str, str], namespaces: Collection[str]) -> Sequence[str]:
        groups = {group.lower() for namespace, group in planned.items() if namespace in namespaces}
        # Who joins a group counts for all of its members; while no member moves, only those that move can matter.
        all_of_them = list_namespaces(self._session, self._pulsar.all_local_policies) if groups else []
        named = sorted({*namespaces, *all_of_them})
        nodes = self._session.get([self._pulsar.local_policies(namespace) for namespace in named])
        changed = []
        for namespace, node in zip(named, nodes, strict=True):
            before, now = (planned.get(namespace) or "").lower(), _group_of(node)
            concerns_us = namespace in namespaces or before in groups or now in groups
            # A namespace that is gone makes no group more crowded; its own steps are skipped one by one.
            if node is not None and before != now and concerns_us:
                changed.append(namespace)
        return changed

    def draining(self) -> frozenset[str]:
        # As with registrations: the parent's pzxid changes with every mark.
        stat = self._session.stat(self._evenkeel.draining)
        as_of = None if stat is None else int(stat.pzxid)
        if as_of != self._drained_as_of:
            self._draining = frozenset(self._session.child_names(self._evenkeel.draining))
            self._drained_as_of = as_of
        return self._draining

    def stopped_by(self) -> str | None:
        # Pulling the switch raises the fence too, so no step gets through while the watch's event is late.
        if self._is_stop_watched.is_set():
            return None
        self._is_stop_watched.set()
        (node,) = self._session.get([self._evenkeel.stop], lambda event: self._is_stop_watched.clear())
        if node is None:
            return None
        self._is_stop_watched.clear()
        directive = Directive.decode(node.data)
        return f"{directive.who}: {directive.reason or 'no reason was given'}"

    def warnings(self) -> Sequence[str]:
        return self._warnings

    def leader(self) -> str | None:
        (node,) = self._session.get([self._leader])
        if node is None:
            return None
        document = JsonObject.decode(node.data, self._leader)
        # Pulsar 3.0.0 to 3.0.2 name the leader by the address of its web service only.
        return document.optional_text("brokerId") or self._find_broker_at(document.optional_text("serviceUrl"))

    def boundaries(self, namespaces: Collection[str]) -> Mapping[str, frozenset[int]]:
        named = sorted(namespaces)
        nodes = self._session.get([self._pulsar.local_policies(namespace) for namespace in named])
        found: dict[str, frozenset[int]] = {}
        for namespace, node in zip(named, nodes, strict=True):
            ranges = () if node is None else parse_boundaries(namespace, node).ranges
            found[namespace] = frozenset(end for part in ranges for end in (part.lower, part.upper))
        return found

    def look(self, bundles: Sequence[str]) -> Mapping[str, BundleView]:
        paths = [self._ownership.path(bundle) for bundle in bundles]
        self._bundle_by_path.update(zip(paths, bundles, strict=True))
        nodes = self._session.get(paths, self._on_change)
        return {bundle: self._view(bundle, node) for bundle, node in zip(bundles, nodes, strict=True)}

    def next_changes(self, timeout_s: float) -> frozenset[str]:
        changed: set[str] = set()
        try:
            self._note(self._changes.get(timeout=timeout_s), changed)
            time.sleep(TOGETHER_S)
            while True:
                self._note(self._changes.get_nowait(), changed)
        except queue.Empty:
            return frozenset(changed)

    def _find_broker_at(self, web_url: str | None) -> str | None:
        """The registered broker with this web address."""
        if web_url is None:
            return None
        names = self._session.child_names(self._pulsar.brokers)
        nodes = self._session.get([self._pulsar.broker(name) for name in names])
        return next((n for n, node in zip(names, nodes, strict=True) if node and web_url in web_urls_of(node)), None)

    def _view(self, bundle: str, node: ZNode | None) -> BundleView:
        if node is None:
            return BundleView(bundle, ServiceUnitState.INIT, None)
        claim = self._ownership.decode(node)
        return BundleView(bundle, claim.state, claim.owner, claim.znode_version, claim.record)

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

    def _is_same(self, path: str, planned: PolicyVersion | None, node: ZNode | None) -> bool:
        """Whether a node is the one that a plan knows, as it was then, or changed by Evenkeel itself only."""
        if self._native is not None and path == self._pulsar.configuration:
            version = None if planned is None else planned.version
            is_same_node = planned is None or (node is not None and node.czxid == planned.czxid)
            return is_same_node and version in self._native.equal_versions(node)
        return planned == (None if node is None else PolicyVersion(node.czxid, node.version))

    def _find_new_domains(self, planned: Collection[str]) -> list[str]:
        """Failure domains that were set after the plan was made; a node without data is none."""
        (found,) = self._configuration.children([self._pulsar.failure_domains(self._cluster)])
        paths = [self._pulsar.failure_domain(self._cluster, name) for name in (found.names if found else ())]
        new = [path for path in paths if path not in planned]
        return [node.path for node in self._configuration.get(new) if node is not None and node.data]

    def _is_local(self, path: str) -> bool:
        """Local policies and switches are in the cluster's own store, all other policies in the configuration store."""
        return path.startswith(f"{self._pulsar.all_local_policies}/") or path == self._pulsar.configuration


class SystemTopicClusterView(ZooKeeperClusterView):
    """Registrations, policies and the kill switch from ZooKeeper; owners from every broker's own list.

    A list cannot be watched, so the bundles that were looked at count as changed at every poll. A bundle that two
    brokers list is moving between them. One that nobody lists is without an owner only if every broker answered.
    """

    def __init__(
        self,
        session: ZooKeeperSession,
        configuration: ZooKeeperSession,
        connection: ClusterConnection,
        http: BrokerHttp,
        registrations: Callable[[], Sequence[Registration]],
        sleep: Callable[[float], None] = time.sleep,
        native: NativeBalancer | None = None,
        warnings: Sequence[str] = (),
    ) -> None:
        kind = LoadManager.EXTENSIBLE_SYSTEM_TOPIC
        unused = ownership_nodes(PulsarPaths.of(connection), kind, ())
        super().__init__(session, configuration, connection, kind, unused, native, warnings)
        self._http = http
        self._registrations = registrations
        self._sleep = sleep
        self._watched: set[str] = set()

    def look(self, bundles: Sequence[str]) -> Mapping[str, BundleView]:
        if not bundles:
            return {}
        owners = self._read_owners(frozenset(bundles))
        self._watched.update(bundles)
        return {bundle: _view_of(bundle, owners.get(bundle, [])) for bundle in bundles}

    def next_changes(self, timeout_s: float) -> frozenset[str]:
        self._sleep(min(timeout_s, OWNERS_POLL_S))
        return frozenset(self._watched)

    def _read_owners(self, wanted: frozenset[str]) -> dict[str, list[str]]:
        """Who lists which of the bundles; a broker that does not answer gets time, since it may be about to leave."""
        silent: list[str] = []
        for attempt in range(OWNERS_ATTEMPTS):
            if attempt:
                self._sleep(OWNERS_RETRY_DELAY_S)
            owners, silent = self._ask(wanted)
            if not silent or wanted <= owners.keys():
                return owners
        raise UnavailableError(
            f"broker {silent[0]} does not list the bundles it owns",
            "check that it answers HTTP requests, then apply the plan again",
        )

    def _ask(self, wanted: frozenset[str]) -> tuple[dict[str, list[str]], list[str]]:
        brokers = self._registrations()
        owners: dict[str, list[str]] = {}
        silent = []
        for broker, owned in zip(brokers, fetch_owned(self._http, self._cluster, brokers), strict=True):
            if owned is None:
                silent.append(broker.broker_id)
                continue
            for bundle in wanted.intersection(owned.names()):
                owners.setdefault(bundle, []).append(broker.broker_id)
        return owners, silent


def _group_of(node: ZNode | None) -> str:
    """The anti-affinity group of a namespace, in lower case as Pulsar compares them; empty where there is none."""
    if node is None or not node.data:
        return ""
    return (JsonObject.decode(node.data, node.path).optional_text("namespaceAntiAffinityGroup") or "").lower()


def _view_of(bundle: str, owners: Sequence[str]) -> BundleView:
    match owners:
        case []:
            return BundleView(bundle, ServiceUnitState.INIT, None)
        case [owner]:
            return BundleView(bundle, ServiceUnitState.OWNED, owner)
        case _:
            return BundleView(bundle, ServiceUnitState.RELEASING, None)
