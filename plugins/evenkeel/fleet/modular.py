"""Brokers of the modular load manager: ownership is an ephemeral node of the owner's own session.

A destination given with an unload is only a hint: the leader keeps it in memory, and the next lookup of the
bundle uses it once. It is lost when the leader changes, and when the same broker leads again after another election.

A lost session is handled by PIP-57: see `reowning`. Between two sessions a broker goes on serving what it has, so
that its clients stay; it neither writes nor believes anything that it remembers of ZooKeeper.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.fleet import documents
from evenkeel.fleet.broker import STALE_NODE_SESSIONS, SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.fleet.layout import child_names
from evenkeel.fleet.load_manager import ClientSwarm
from evenkeel.fleet.observer import Entry, OwnershipObserver
from evenkeel.fleet.ownership_cache import OwnershipCaches
from evenkeel.fleet.placement import Placement
from evenkeel.fleet.reowning import OwnershipNodes, Reownership, Reowning
from evenkeel.fleet.reports import LoadReports
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.fleet.splitting import add_boundaries
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import InputError

WHOLE_RING = "0x00000000_0xffffffff"
UNKNOWN_OUTCOME_WAIT_S = 0.2

_log = logging.getLogger(__name__)


class ModularLoadManager:
    """All brokers of a fleet, as far as they own bundles and report load."""

    def __init__(self, cluster: Cluster, client: KazooClient) -> None:
        self._cluster = cluster
        base = cluster.paths.ownership_base(LoadManagerKind.MODULAR)
        self.observer = OwnershipObserver(client, base, self._decode_owner, self._on_change)
        self.placement = Placement(cluster, self.owners)
        self.clients = ClientSwarm(cluster, self.assign)
        self.reports = LoadReports(cluster, self.owners)
        self.reownerships: dict[str, Reownership] = {}
        """What became of each broker's bundles after its last new session."""
        self._held = OwnershipCaches()
        self._reowning: set[str] = set()
        self._lock = threading.Lock()
        self._hints: dict[str, str] = {}
        self._hints_of_term: int | None = None

    def start(self, timeout_s: float) -> None:
        self.observer.start(timeout_s)

    def stop(self) -> None:
        self.observer.stop()

    def seed(self, owners: Mapping[str, str]) -> None:
        taken = {bundle: self._cluster.brokers[owner] for bundle, owner in owners.items()}
        created = []
        for bundle, broker in taken.items():
            self._held.add(broker.id, bundle)
            created.append(broker.client.create_async(self._path(bundle), self._document(broker), ephemeral=True))
        for result in created:
            result.get(timeout=self._cluster.settings.admin_timeout_s)

    def start_broker(self, broker: SimulatedBroker) -> None:
        broker.register(self._cluster.paths.broker(broker.id), self.reports.build(broker))
        average = documents.encode(documents.zeroed_time_average())
        path = self._cluster.paths.time_average(broker.id)
        try:
            broker.client.create(path, average, makepath=True)
        except NodeExistsError:
            broker.client.set(path, average)
        heartbeat = f"pulsar/{broker.id}/{WHOLE_RING}"
        self._own(broker, heartbeat)

    def on_broker_lost(self, broker_id: str) -> None:
        lost = self._held.of(broker_id)
        self._held.clear(broker_id)
        self._reowning.discard(broker_id)
        self.reports.forget(broker_id)
        for bundle in lost:
            # Nodes that went while the broker was between two sessions told the clients nothing then.
            if self.observer.get(bundle) is None:
                self.clients.cut(bundle)

    def on_session_lost(self, broker: SimulatedBroker) -> None:
        self._reowning.add(broker.id)
        self.reports.forget(broker.id)

    def on_new_session(self, broker: SimulatedBroker) -> None:
        try:
            broker.register(self._cluster.paths.broker(broker.id), self.reports.build(broker))
            settings = self._cluster.settings
            nodes = OwnershipNodes(broker.id, self._document(broker), self._path, self._decode_owner)
            reowning = Reowning(broker.client, broker.session_id, nodes, settings.admin_timeout_s)
            deadline_s = time.monotonic() + STALE_NODE_SESSIONS * settings.session_timeout_s
            outcome = reowning.run(self._held.of(broker.id), deadline_s)
            for bundle in outcome.unloaded:
                self._held.drop(broker.id, bundle)
        finally:
            self._reowning.discard(broker.id)
        self.reownerships[broker.id] = outcome
        self._own_what_was_lost_again(broker)
        figures = len(outcome.kept), len(outcome.owned_again), len(outcome.unloaded)
        _log.info("%s has a new session: %d bundles kept, %d owned again, %d unloaded", broker.id, *figures)
        wanted = {*outcome.kept, *outcome.owned_again}
        self.observer.wait_until(lambda: wanted <= self.owners().keys(), settings.admin_timeout_s)
        self.reports.report(broker)

    def on_registry_change(self) -> None:
        for broker in self._cluster.alive_brokers():
            if broker.id not in self._cluster.registered:
                self._cluster.timers.submit(self._register_again, broker)

    def owners(self) -> dict[str, str]:
        return {bundle: entry.value for bundle, entry in self.observer.entries().items()}

    def served_by(self, broker: SimulatedBroker) -> list[str]:
        if not broker.is_alive or broker.id in self._reowning:
            return self._held.of(broker.id)
        return sorted(bundle for bundle, owner in self.owners().items() if owner == broker.id)

    def owner_of(self, bundle: str) -> str | None:
        entry = self.observer.get(bundle)
        return entry.value if entry else None

    def responsible_for(self, bundle: str) -> str | None:
        return self.owner_of(bundle)

    def assign(self, broker: SimulatedBroker, bundle: str) -> bool:
        if self.observer.get(bundle) is not None:
            return True
        chosen = self.choose(self._cluster.leader or broker, bundle)
        if chosen is None:
            return False
        broker.assignments += 1
        self._own(chosen, bundle)
        return True

    def choose(self, decider: SimulatedBroker, bundle: str) -> SimulatedBroker | None:
        """The broker that is to own a bundle by the leader's word; a destination that it remembers is used up."""
        chosen = self._cluster.alive(self._take_hint(bundle) or self.placement.select(bundle, decider))
        return None if chosen is None or chosen.is_fenced(self._cluster.clock()) else chosen

    def take(self, broker: SimulatedBroker, bundle: str) -> None:
        """Let a broker own a bundle that the leader has chosen it for, unless another was faster."""
        broker.assignments += 1
        self._own(broker, bundle)
        self._await_owner(bundle)

    def look_up(self, broker: SimulatedBroker, bundle: str) -> str | None:
        if not self.assign(broker, bundle):
            return None
        self._await_owner(bundle)
        return self.owner_of(bundle)

    def hint(self, bundle: str, destination: str) -> None:
        """Remember, as the leader, where the next lookup of a bundle should put it."""
        with self._lock:
            self._forget_hints_of_old_leader()
            self._hints[bundle] = destination

    def unload(self, broker: SimulatedBroker, bundle: str, destination: str | None) -> None:
        if destination is not None:
            self.hint(bundle, destination)
        self._held.drop(broker.id, bundle)
        time.sleep(self._cluster.hand_over_delay_s)
        self._delete(broker, bundle)
        self.observer.wait_until(lambda: self._has_left(broker, bundle), self._cluster.settings.admin_timeout_s)

    def split(self, broker: SimulatedBroker, bundle: str, cuts: Sequence[int], must_unload: bool) -> None:
        parent = BundleName.parse(bundle)
        children = [str(child) for child in child_names(parent, cuts)]
        for child in children:
            self._own(broker, child)
        add_boundaries(broker, self._cluster.paths, self._cluster.catalogue, parent.namespace, cuts)
        self.unload(broker, bundle, None)
        if must_unload:
            for child in children:
                self.unload(broker, child, None)

    def _own(self, broker: SimulatedBroker, bundle: str) -> None:
        client, session_id = broker.client, broker.session_id
        self._held.add(broker.id, bundle)
        try:
            client.create(self._path(bundle), self._document(broker), ephemeral=True, makepath=True)
        except NodeExistsError:
            stat = client.exists(self._path(bundle))
            if stat is None or stat.ephemeralOwner != session_id:
                # Another broker was faster; the observer will tell which.
                self._held.drop(broker.id, bundle)
        except (KazooException, KazooTimeoutError):
            # Nobody knows what became of it. If the session lives it is asked again; if not, the next one asks.
            self._cluster.timers.after(UNKNOWN_OUTCOME_WAIT_S, self._own_again, broker, bundle, session_id)
            raise

    def _await_owner(self, bundle: str) -> None:
        self.observer.wait_until(lambda: self.observer.get(bundle) is not None, self._cluster.settings.admin_timeout_s)

    def _own_again(self, broker: SimulatedBroker, bundle: str, session_id: int) -> None:
        if broker.session_id == session_id and self._held.holds(broker.id, bundle):
            self._own(broker, bundle)

    def _delete(self, broker: SimulatedBroker, bundle: str) -> None:
        client, session_id = broker.client, broker.session_id
        stat = client.exists(self._path(bundle))
        if stat is None or stat.ephemeralOwner != session_id:
            _log.debug("%s was given up already", bundle)
            return
        try:
            client.delete(self._path(bundle))
        except NoNodeError:
            _log.debug("%s was given up already", bundle)

    def _on_change(self, bundle: str, entry: Entry[str] | None) -> None:
        """React to an ownership node; runs on the observer's thread, so it only plans."""
        self.placement.settle(bundle)
        holders = [holder for holder in self._held.holders(bundle) if self._cluster.is_running(holder)]
        # A broker between two sessions sees nothing: it finds out by itself when it has the next one.
        watching = [holder for holder in holders if self._cluster.alive(holder) and holder not in self._reowning]
        if entry is not None:
            for holder in watching:
                # A node of another session ends the claim of whoever held the bundle before. It makes no new
                # claim: a late event must not revive the claim of a broker that is giving the bundle up.
                if holder != entry.value:
                    self._held.drop(holder, bundle)
            return
        for holder in watching:
            self._cluster.timers.submit(self._own, self._cluster.brokers[holder], bundle)
        if not holders:
            self.clients.cut(bundle)

    def _own_what_was_lost_again(self, broker: SimulatedBroker) -> None:
        """Own what lost its node while the broker did not watch: after it had been looked at, before watching again."""
        for bundle in self._held.of(broker.id):
            if self.observer.get(bundle) is None:
                self._own(broker, bundle)

    def _register_again(self, broker: SimulatedBroker) -> None:
        if broker.is_alive and broker.id not in self._cluster.registered:
            broker.register(self._cluster.paths.broker(broker.id), self.reports.build(broker))

    def _take_hint(self, bundle: str) -> str | None:
        with self._lock:
            self._forget_hints_of_old_leader()
            destination = self._hints.pop(bundle, None)
        return destination if self._cluster.alive(destination) else None

    def _forget_hints_of_old_leader(self) -> None:
        leadership = self._cluster.leadership if self._cluster.leader else None
        term = leadership.term if leadership else None
        if term != self._hints_of_term:
            self._hints.clear()
            self._hints_of_term = term

    def _has_left(self, broker: SimulatedBroker, bundle: str) -> bool:
        entry = self.observer.get(bundle)
        return entry is None or entry.value != broker.id or bool(self._held.holders(bundle))

    def _document(self, broker: SimulatedBroker) -> bytes:
        return documents.encode(documents.ephemeral_ownership(broker.id, broker.web_url))

    def _decode_owner(self, data: bytes, path: str) -> str:
        remedy = "remove the node"
        try:
            url = json.loads(data)["nativeUrl"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} names no owner ({error})", remedy) from error
        for broker in self._cluster.brokers.values():
            if broker.service_url == url:
                return broker.id
        raise InputError(f"{path} names the unknown broker {url}", remedy)

    def _path(self, bundle: str) -> str:
        return self._cluster.paths.ownership(LoadManagerKind.MODULAR, bundle)
