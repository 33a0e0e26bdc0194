"""Brokers with the extensible load manager: they follow the records under /service_unit_state, whoever wrote them.

Every write of a broker passes Pulsar's conflict resolver and names the node's version. As in Pulsar, a write that is
rejected or comes too late is dropped without an error, and the next event shows the current state.

Records outlive sessions. A broker that loses its session closes its bundles and stops reacting; with a new session it
registers again and reopens the bundles that are still its own. `LeaderMonitor` decides whether they are taken from it
meanwhile: it overrides records that are orphaned or stuck in flight, and removes expired ones.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from evenkeel.fleet import documents
from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.fleet.layout import child_names
from evenkeel.fleet.load_manager import HttpError, Placement, SimulatedClients, UnexpectedServerError
from evenkeel.fleet.metadata import add_boundaries
from evenkeel.fleet.ownership import Entry, OwnershipObserver
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.model.bundles import BundleName, BundleRange
from evenkeel.model.errors import InputError
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.pulsar_rules.ring import range_equally_divide, specified_positions_divide
from evenkeel.pulsar_rules.state_machine import find_conflict, next_version_id

PAIR = 2
MILLISECONDS_PER_S = 1000.0
RecordEntry = Entry[ServiceUnitRecord]

_log = logging.getLogger(__name__)


class ExtensibleLoadManager:
    """The ownership of bundles by all brokers of a fleet."""

    def __init__(self, cluster: Cluster, client: KazooClient) -> None:
        self._cluster = cluster
        base = cluster.paths.owners(LoadManagerKind.EXTENSIBLE)
        self.observer = OwnershipObserver(client, base, ServiceUnitRecord.decode, self._on_change)
        self.placement = Placement(cluster, self.owners)
        self.clients = SimulatedClients(cluster, self.assign)

    def start(self, timeout_s: float) -> None:
        self.observer.start(timeout_s)

    def stop(self) -> None:
        self.observer.stop()

    def seed(self, owners: Mapping[str, str]) -> None:
        created = []
        for bundle, owner in owners.items():
            record = ServiceUnitRecord(ServiceUnitState.OWNED, self._cluster.now_ms, 1, destination=owner)
            client = self._cluster.brokers[owner].client
            created.append(client.create_async(self._path(bundle), record.encode()))
        for result in created:
            try:
                result.get(timeout=self._cluster.settings.admin_timeout_s)
            except NodeExistsError:
                _log.debug("a bundle already has an owner")

    def start_broker(self, broker: SimulatedBroker) -> None:
        document = documents.lookup_data(
            broker.id, broker.web_url, broker.started_ms, self._cluster.settings.broker_version
        )
        broker.register(self._cluster.paths.broker(broker.id), document)
        for bundle, entry in self.observer.entries().items():
            if entry.value.state is ServiceUnitState.ASSIGNING and entry.value.destination == broker.id:
                self._cluster.timers.submit(self._take, broker, bundle, entry)

    def on_broker_lost(self, broker_id: str) -> None:
        # Records are persistent: the leader's monitor finds the orphans.
        _log.info("%s is gone", broker_id)

    def on_session_lost(self, broker: SimulatedBroker) -> None:
        _log.info("%s closed its bundles", broker.id)

    def on_new_session(self, broker: SimulatedBroker) -> None:
        self.start_broker(broker)

    def on_registry_change(self) -> None:
        for broker in self._cluster.alive_brokers():
            if broker.id not in self._cluster.registered:
                self._cluster.timers.submit(self._register_again, broker)

    def owners(self) -> dict[str, str]:
        entries = self.observer.entries().items()
        return {bundle: entry.value.owner for bundle, entry in entries if entry.value.owner is not None}

    def served_by(self, broker: SimulatedBroker) -> list[str]:
        if not broker.is_alive:
            return []
        return sorted(bundle for bundle, owner in self.owners().items() if owner == broker.id)

    def owner_of(self, bundle: str) -> str | None:
        entry = self.observer.get(bundle)
        return entry.value.owner if entry else None

    def responsible_for(self, bundle: str) -> str | None:
        entry = self.observer.get(bundle)
        if entry is not None and entry.value.state is ServiceUnitState.ASSIGNING:
            return entry.value.destination
        return self.owner_of(bundle)

    def assign(self, broker: SimulatedBroker, bundle: str) -> bool:
        entry = self.observer.get(bundle)
        if entry is not None and entry.value.state is not ServiceUnitState.FREE:
            return True
        chosen = self.placement.select(bundle, broker)
        if chosen is None:
            return False
        broker.assignments += 1
        self.write(broker, bundle, entry, ServiceUnitState.ASSIGNING, destination=chosen)
        return True

    def look_up(self, broker: SimulatedBroker, bundle: str) -> str | None:
        entry = self.observer.get(bundle)
        if entry is not None and entry.value.state is ServiceUnitState.DELETED:
            raise HttpError(500, f"{bundle} is deleted")
        if not self.assign(broker, bundle):
            return None
        self.observer.wait_until(lambda: self.owner_of(bundle) is not None, self._cluster.settings.admin_timeout_s)
        return self.owner_of(bundle)

    def unload(self, broker: SimulatedBroker, bundle: str, destination: str | None) -> None:
        entry = self._owned_entry(broker, bundle)
        if destination == broker.id:
            raise UnexpectedServerError(
                f"Namespace bundle: {bundle} own by {broker.id}, cannot be transfer to same broker."
            )
        self.write(broker, bundle, entry, ServiceUnitState.RELEASING, destination=destination, source=broker.id)
        self._wait_until(lambda: self._has_left(bundle, broker.id, entry), f"{bundle} was not unloaded in time")

    def split(self, broker: SimulatedBroker, bundle: str, cuts: Sequence[int], must_unload: bool) -> None:
        if len(cuts) != 1:
            raise HttpError(412, f"{bundle} must be split into exactly two bundles")
        entry = self._owned_entry(broker, bundle)
        children = {str(child.range): None for child in child_names(BundleName.parse(bundle), cuts)}
        self.write(broker, bundle, entry, ServiceUnitState.SPLITTING, source=broker.id, children=children)
        self._wait_until(lambda: self.observer.get(bundle) is None, f"{bundle} was not split in time")

    def write(
        self,
        broker: SimulatedBroker,
        bundle: str,
        current: RecordEntry | None,
        state: ServiceUnitState,
        *,
        destination: str | None = None,
        source: str | None = None,
        children: Mapping[str, str | None] | None = None,
        force: bool = False,
    ) -> bool:
        """Write the next record of a bundle with the broker's session; False if it was rejected or came too late."""
        known = current.value if current else None
        record = ServiceUnitRecord(
            state, self._cluster.now_ms, next_version_id(known), destination, source, children, force
        )
        conflict = find_conflict(known, record)
        if conflict is not None:
            _log.info("%s keeps its record: %s", bundle, conflict)
            return False
        try:
            if current is None:
                broker.client.create(self._path(bundle), record.encode(), makepath=True)
            else:
                broker.client.set(self._path(bundle), record.encode(), version=current.version)
        except (BadVersionError, NoNodeError, NodeExistsError) as error:
            _log.debug("%s was too late to write %s: %r", broker.id, bundle, error)
            return False
        return True

    def remove(self, broker: SimulatedBroker, bundle: str) -> None:
        """Remove a bundle's record; like Pulsar's brokers, without a version check."""
        try:
            broker.client.delete(self._path(bundle))
        except NoNodeError:
            _log.debug("%s was removed already", bundle)

    def record_reports(self) -> None:
        """Record a heartbeat for every broker that responds; extensible brokers report their load over HTTP."""
        for broker in self._cluster.alive_brokers():
            if not broker.is_frozen:
                broker.reported_s = self._cluster.clock()

    def _on_change(self, bundle: str, entry: RecordEntry | None) -> None:
        """React to a record as the broker it concerns. Runs on the observer's thread, so it only schedules work."""
        timers, delay_s = self._cluster.timers, self._cluster.hand_over_delay_s
        if entry is None:
            self.clients.disconnect(bundle)
            return
        record = entry.value
        source, destination = self._cluster.alive(record.source), self._cluster.alive(record.destination)
        match record.state:
            case ServiceUnitState.ASSIGNING if destination:
                timers.submit(self._take, destination, bundle, entry)
            case ServiceUnitState.OWNED:
                self.placement.confirm(bundle)
            case ServiceUnitState.RELEASING if source:
                timers.after(delay_s, self._release, source, bundle, entry)
            case ServiceUnitState.SPLITTING if source:
                timers.submit(self._split, source, bundle, entry)
            case ServiceUnitState.DELETED if source:
                timers.submit(self.remove, source, bundle)
            case ServiceUnitState.FREE if record.force and source:
                timers.submit(self.remove, source, bundle)
            case ServiceUnitState.FREE:
                self.clients.disconnect(bundle)

    def _take(self, broker: SimulatedBroker, bundle: str, entry: RecordEntry) -> None:
        record = entry.value
        if broker.is_fenced(self._cluster.clock()):
            _log.warning("%s has not reported for too long and does not take %s", broker.id, bundle)
            return
        self.write(broker, bundle, entry, ServiceUnitState.OWNED, destination=record.destination, source=record.source)

    def _release(self, broker: SimulatedBroker, bundle: str, entry: RecordEntry) -> None:
        record = entry.value
        state = ServiceUnitState.ASSIGNING if record.destination else ServiceUnitState.FREE
        self.write(broker, bundle, entry, state, destination=record.destination, source=record.source)

    def _split(self, broker: SimulatedBroker, bundle: str, entry: RecordEntry) -> None:
        parent = BundleName.parse(bundle)
        try:
            children = [BundleRange.parse(text) for text in entry.value.children or {}]
        except InputError as error:
            _log.warning("%s cannot be split: %s", bundle, error)
            return
        for child in children:
            name = str(replace(parent, range=child))
            if self.observer.get(name) is None:
                self.write(broker, name, None, ServiceUnitState.OWNED, destination=broker.id)
        if self._cluster.catalogue.has(bundle):
            ends = [end for child in children for end in (child.lower, child.upper)]
            is_pair = len(children) == PAIR
            cuts = specified_positions_divide(parent.range, ends) if is_pair else range_equally_divide(parent.range)
            add_boundaries(broker.stores, self._cluster.paths, self._cluster.catalogue, parent.namespace, cuts)
        self.write(broker, bundle, entry, ServiceUnitState.DELETED, source=entry.value.source)

    def _register_again(self, broker: SimulatedBroker) -> None:
        if broker.is_alive and broker.id not in self._cluster.registered:
            self.start_broker(broker)

    def _owned_entry(self, broker: SimulatedBroker, bundle: str) -> RecordEntry:
        entry = self.observer.get(bundle)
        if entry is None or entry.value.state is not ServiceUnitState.OWNED or entry.value.destination != broker.id:
            raise HttpError(412, f"{bundle} is not owned by {broker.id} now; try again")
        return entry

    def _has_left(self, bundle: str, broker_id: str, before: RecordEntry) -> bool:
        entry = self.observer.get(bundle)
        if entry is None or entry.value.state is ServiceUnitState.FREE:
            return True
        is_later = entry.value.version_id > before.value.version_id + 1
        return entry.value.state is ServiceUnitState.OWNED and (is_later or entry.value.destination != broker_id)

    def _wait_until(self, is_met: Callable[[], bool], complaint: str) -> None:
        if not self.observer.wait_until(is_met, self._cluster.settings.admin_timeout_s):
            raise HttpError(500, complaint)

    def _path(self, bundle: str) -> str:
        return self._cluster.paths.owner(LoadManagerKind.EXTENSIBLE, bundle)


class LeaderMonitor:
    """Checks all records at intervals, and at once when a broker's registration goes away.

    A leader that has just replaced its own session may be the one with the problem: brokers that look absent may only
    be invisible to it. It overrides nothing until its session has been stable for a while, so that after an outage of
    ZooKeeper the brokers have time to return to their bundles.
    """

    def __init__(self, cluster: Cluster, manager: ExtensibleLoadManager) -> None:
        self._cluster = cluster
        self._manager = manager
        self._one_pass = threading.Lock()
        self._lock = threading.Lock()
        self._is_due = False

    def run_pass(self) -> None:
        """Override and remove records where needed; without a leader, do nothing."""
        leader = self._cluster.leader
        if leader is None:
            return
        unstable_s = self._unstable_for_s(leader)
        if unstable_s > 0:
            self._run_again_in(unstable_s)
            return
        with self._one_pass:
            for bundle, entry in self._manager.observer.entries().items():
                if self._is_expired(entry):
                    self._manager.remove(leader, bundle)
                elif self._needs_override(entry):
                    self._override(leader, bundle, entry)

    def _unstable_for_s(self, leader: SimulatedBroker) -> float:
        """Return for how much longer the leader's session counts as unstable."""
        if leader.new_session_s is None:
            return 0.0
        return leader.new_session_s + self._cluster.settings.stable_session_s - self._cluster.clock()

    def _run_again_in(self, delay_s: float) -> None:
        with self._lock:
            if self._is_due:
                return
            self._is_due = True
        self._cluster.timers.after(delay_s, self._run_due_pass)

    def _run_due_pass(self) -> None:
        with self._lock:
            self._is_due = False
        self.run_pass()

    def _is_expired(self, entry: RecordEntry) -> bool:
        is_dead = entry.value.state in (ServiceUnitState.FREE, ServiceUnitState.DELETED)
        return is_dead and self._age_s(entry) > self._cluster.settings.tombstone_delay_s

    def _needs_override(self, entry: RecordEntry) -> bool:
        record = entry.value
        if record.state is ServiceUnitState.OWNED:
            return not self._is_healthy(record.destination)
        if not record.state.is_in_flight:
            return False
        named = [broker for broker in (record.source, record.destination) if broker]
        is_stuck = self._age_s(entry) > self._cluster.settings.in_flight_limit_s
        return is_stuck or not all(self._is_healthy(broker) for broker in named)

    def _is_healthy(self, broker_id: str | None) -> bool:
        # A broker without registration gets a health check before its bundles are taken away.
        return broker_id in self._cluster.registered or self._cluster.alive(broker_id) is not None

    def _override(self, leader: SimulatedBroker, bundle: str, entry: RecordEntry) -> None:
        record = entry.value
        chosen = self._manager.placement.select(bundle, leader)
        old = record.destination if record.state is ServiceUnitState.OWNED else record.source
        _log.info("the leader overrides %s of %s: %s", record.state, bundle, chosen)
        if chosen is None:
            self._manager.write(leader, bundle, entry, ServiceUnitState.FREE, source=old, force=True)
        elif record.state is ServiceUnitState.SPLITTING:
            self._manager.write(
                leader,
                bundle,
                entry,
                ServiceUnitState.SPLITTING,
                source=chosen,
                children=record.children,
                force=True,
            )
        else:
            self._manager.write(
                leader, bundle, entry, ServiceUnitState.OWNED, destination=chosen, source=old, force=True
            )

    def _age_s(self, entry: RecordEntry) -> float:
        return self._cluster.clock() - entry.value.timestamp_ms / MILLISECONDS_PER_S
