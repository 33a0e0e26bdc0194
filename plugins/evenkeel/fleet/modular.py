"""Brokers with the modular load manager: ownership is an ephemeral node of the owner's session.

A destination given with an unload is only a hint: the leader keeps it in memory, and the next lookup of the bundle
uses it once. The hint is lost with every election, even if the same broker wins again. Two defects of real brokers can
be switched on (see `FleetSettings`): lookups that name the old owner for a while after an unload, and hints that are
kept by range only, so that two namespaces with equal ranges take each other's destination.

`session_recovery` describes what follows a lost session (PIP-57). Between two sessions a broker keeps serving its
bundles, so that its clients stay connected; it writes nothing and trusts nothing that it had read from ZooKeeper.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.fleet import documents
from evenkeel.fleet.broker import STALE_NODE_SESSIONS, SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.fleet.layout import child_names
from evenkeel.fleet.load_manager import Placement, SimulatedClients
from evenkeel.fleet.metadata import add_boundaries
from evenkeel.fleet.ownership import Entry, OwnershipCaches, OwnershipObserver
from evenkeel.fleet.reports import LoadReports
from evenkeel.fleet.session_recovery import OwnershipNodes, Reowning, ReowningOutcome
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import InputError

WHOLE_RING = "0x00000000_0xffffffff"
UNKNOWN_OUTCOME_WAIT_S = 0.2

_log = logging.getLogger(__name__)


class ModularLoadManager:
    """The ownership of bundles and the load reports of all brokers of a fleet."""

    def __init__(self, cluster: Cluster, client: KazooClient) -> None:
        self._cluster = cluster
        base = cluster.paths.owners(LoadManagerKind.MODULAR)
        self.observer = OwnershipObserver(client, base, self._decode_owner, self._on_change)
        self.placement = Placement(cluster, self.owners)
        self.clients = SimulatedClients(cluster, self.assign)
        self.reports = LoadReports(cluster, self.owners)
        self.reownerships: dict[str, ReowningOutcome] = {}
        """What happened to each broker's bundles after its last new session."""
        self.unloads: Counter[str] = Counter()
        """How often each bundle was taken from its owner by an admin call."""
        self._left: dict[str, tuple[str, float]] = {}
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
            # The clients did not notice nodes that went away while the broker was between two sessions.
            if self.observer.get(bundle) is None:
                self.clients.disconnect(bundle)

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
        self._own_lost_bundles(broker)
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
        """Return the broker that the leader chooses as owner; this consumes the hint for the bundle."""
        chosen = self._cluster.alive(self._take_hint(bundle) or self.placement.select(bundle, decider))
        return None if chosen is None or chosen.is_fenced(self._cluster.clock()) else chosen

    def take(self, broker: SimulatedBroker, bundle: str) -> None:
        """Let the broker chosen by the leader claim a bundle, unless another broker was faster."""
        broker.assignments += 1
        self._own(broker, bundle)
        self._await_owner(bundle)

    def look_up(self, broker: SimulatedBroker, bundle: str) -> str | None:
        if not self.assign(broker, bundle):
            return None
        self._await_owner(bundle)
        return self.owner_of(bundle)

    def hint(self, bundle: str, destination: str) -> None:
        """Remember, as the leader, which broker the next lookup of a bundle should choose."""
        with self._lock:
            self._forget_hints_of_old_leader()
            self._hints[self._hint_key(bundle)] = destination

    def stale_owner(self, broker: SimulatedBroker, bundle: str) -> str | None:
        """Return the former owner of a bundle that has none, if the cache of a broker still names it."""
        owner, until_s = self._left.get(bundle, ("", 0.0))
        is_stale = time.monotonic() < until_s and owner != broker.id and self.observer.get(bundle) is None
        return owner if is_stale else None

    def unload(self, broker: SimulatedBroker, bundle: str, destination: str | None) -> None:
        if destination is not None:
            self.hint(bundle, destination)
        self._held.drop(broker.id, bundle)
        time.sleep(self._cluster.hand_over_delay_s)
        self.unloads[bundle] += 1
        self._left[bundle] = broker.id, time.monotonic() + self._cluster.settings.stale_lookup_s
        self._delete(broker, bundle)
        self.observer.wait_until(lambda: self._has_left(broker, bundle), self._cluster.settings.admin_timeout_s)

    def split(self, broker: SimulatedBroker, bundle: str, cuts: Sequence[int], must_unload: bool) -> None:
        parent = BundleName.parse(bundle)
        children = [str(child) for child in child_names(parent, cuts)]
        for child in children:
            self._own(broker, child)
        add_boundaries(broker.stores, self._cluster.paths, self._cluster.catalogue, parent.namespace, cuts)
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
                # Another broker was faster; the observer will show which.
                self._held.drop(broker.id, bundle)
        except (KazooException, KazooTimeoutError):
            # The outcome is unknown. If the session is still open, check again; if not, the next session will.
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
            _log.debug("%s was already unloaded", bundle)
            return
        try:
            client.delete(self._path(bundle))
        except NoNodeError:
            _log.debug("%s was already unloaded", bundle)

    def _on_change(self, bundle: str, entry: Entry[str] | None) -> None:
        """React to an ownership node. Runs on the observer's thread, so it only schedules work."""
        self.placement.confirm(bundle)
        holders = [holder for holder in self._held.holders(bundle) if self._cluster.is_running(holder)]
        # A broker between two sessions sees no events; it checks its bundles once it has the next session.
        watching = [holder for holder in holders if self._cluster.alive(holder) and holder not in self._reowning]
        if entry is not None:
            for holder in watching:
                # Another broker's node ends the claim of the previous holder. It starts no new claim: a late event must
                # not revive the claim of a broker that is unloading the bundle.
                if holder != entry.value:
                    self._held.drop(holder, bundle)
            return
        for holder in watching:
            self._cluster.timers.submit(self._own, self._cluster.brokers[holder], bundle)
        if not holders:
            self.clients.disconnect(bundle)

    def _own_lost_bundles(self, broker: SimulatedBroker) -> None:
        """Claim bundles that lost their node after they were checked but before the broker reacts to events again."""
        for bundle in self._held.of(broker.id):
            if self.observer.get(bundle) is None:
                self._own(broker, bundle)

    def _register_again(self, broker: SimulatedBroker) -> None:
        if broker.is_alive and broker.id not in self._cluster.registered:
            broker.register(self._cluster.paths.broker(broker.id), self.reports.build(broker))

    def _take_hint(self, bundle: str) -> str | None:
        with self._lock:
            self._forget_hints_of_old_leader()
            destination = self._hints.pop(self._hint_key(bundle), None)
        return destination if self._cluster.alive(destination) else None

    def _hint_key(self, bundle: str) -> str:
        return bundle.rpartition("/")[2] if self._cluster.settings.remembers_ranges_only else bundle

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
        remedy = "delete the node"
        try:
            url = json.loads(data)["nativeUrl"]
        except (ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} does not name an owner ({error})", remedy) from error
        for broker in self._cluster.brokers.values():
            if broker.service_url == url:
                return broker.id
        raise InputError(f"{path} names the unknown broker {url}", remedy)

    def _path(self, bundle: str) -> str:
        return self._cluster.paths.owner(LoadManagerKind.MODULAR, bundle)
