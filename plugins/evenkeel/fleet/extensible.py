"""Brokers of the extensible load manager: they obey the records under /service_unit_state, whoever wrote them.

Every write of a broker passes Pulsar's conflict resolver and names the node's version; one that is refused
or comes too late is dropped without an error, as in Pulsar, and the next event tells what became of it.

Records outlive sessions. A broker that loses its session closes all its bundles and reacts to nothing; with another
session it registers again and opens what is still its own. Whether anything is taken from it meanwhile is up to the
leader's monitor.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from evenkeel.fleet import documents
from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.fleet.layout import child_names
from evenkeel.fleet.load_manager import AnswerError, ClientSwarm, UnexpectedError
from evenkeel.fleet.observer import Entry, OwnershipObserver
from evenkeel.fleet.placement import Placement
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.fleet.splitting import add_boundaries
from evenkeel.model.bundles import BundleName, BundleRange
from evenkeel.model.errors import InputError
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.pulsar.split_algorithms import range_equally_divide, specified_positions_divide
from evenkeel.pulsar.state_machine import find_conflict, next_version_id

PAIR = 2
RecordEntry = Entry[ServiceUnitRecord]

_log = logging.getLogger(__name__)


class ExtensibleLoadManager:
    """All brokers of a fleet, as far as they own bundles."""

    def __init__(self, cluster: Cluster, client: KazooClient) -> None:
        self._cluster = cluster
        base = cluster.paths.ownership_base(LoadManagerKind.EXTENSIBLE)
        self.observer = OwnershipObserver(client, base, ServiceUnitRecord.decode, self._on_change)
        self.placement = Placement(cluster, self.owners)
        self.clients = ClientSwarm(cluster, self.assign)

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
                _log.debug("a bundle has an owner from before")

    def start_broker(self, broker: SimulatedBroker) -> None:
        document = documents.lookup_data(broker.id, broker.web_url, broker.started_ms)
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
            raise AnswerError(500, f"{bundle} is deleted")
        if not self.assign(broker, bundle):
            return None
        self.observer.wait_until(lambda: self.owner_of(bundle) is not None, self._cluster.settings.admin_timeout_s)
        return self.owner_of(bundle)

    def unload(self, broker: SimulatedBroker, bundle: str, destination: str | None) -> None:
        entry = self._owned_entry(broker, bundle)
        if destination == broker.id:
            raise UnexpectedError(f"Namespace bundle: {bundle} own by {broker.id}, cannot be transfer to same broker.")
        self.write(broker, bundle, entry, ServiceUnitState.RELEASING, destination=destination, source=broker.id)
        self._wait_until(lambda: self._has_left(bundle, broker.id, entry), f"{bundle} was not unloaded in time")

    def split(self, broker: SimulatedBroker, bundle: str, cuts: Sequence[int], must_unload: bool) -> None:
        if len(cuts) != 1:
            raise AnswerError(412, f"{bundle} must be split into exactly two bundles")
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
        """Write the next record of a bundle with a broker's own session; False if it was refused or too late."""
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
            _log.debug("%s came too late for %s: %r", broker.id, bundle, error)
            return False
        return True

    def remove(self, broker: SimulatedBroker, bundle: str) -> None:
        """Remove a bundle's record; like Pulsar's brokers without a version check."""
        try:
            broker.client.delete(self._path(bundle))
        except NoNodeError:
            _log.debug("%s was removed already", bundle)

    def note_reports(self) -> None:
        """Take it down that every broker that answers has reported: its load is asked for over HTTP."""
        for broker in self._cluster.alive_brokers():
            if not broker.is_frozen:
                broker.reported_s = self._cluster.clock()

    def _on_change(self, bundle: str, entry: RecordEntry | None) -> None:
        """React to a record as the broker that it concerns; runs on the observer's thread, so it only plans."""
        timers, delay_s = self._cluster.timers, self._cluster.hand_over_delay_s
        if entry is None:
            self.clients.cut(bundle)
            return
        record = entry.value
        source, destination = self._cluster.alive(record.source), self._cluster.alive(record.destination)
        match record.state:
            case ServiceUnitState.ASSIGNING if destination:
                timers.submit(self._take, destination, bundle, entry)
            case ServiceUnitState.OWNED:
                self.placement.settle(bundle)
            case ServiceUnitState.RELEASING if source:
                timers.after(delay_s, self._release, source, bundle, entry)
            case ServiceUnitState.SPLITTING if source:
                timers.submit(self._split, source, bundle, entry)
            case ServiceUnitState.DELETED if source:
                timers.submit(self.remove, source, bundle)
            case ServiceUnitState.FREE if record.force and source:
                timers.submit(self.remove, source, bundle)
            case ServiceUnitState.FREE:
                self.clients.cut(bundle)

    def _take(self, broker: SimulatedBroker, bundle: str, entry: RecordEntry) -> None:
        record = entry.value
        if broker.is_fenced(self._cluster.clock()):
            _log.warning("%s has not reported for long and does not take %s", broker.id, bundle)
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
            add_boundaries(broker, self._cluster.paths, self._cluster.catalogue, parent.namespace, cuts)
        self.write(broker, bundle, entry, ServiceUnitState.DELETED, source=entry.value.source)

    def _register_again(self, broker: SimulatedBroker) -> None:
        if broker.is_alive and broker.id not in self._cluster.registered:
            self.start_broker(broker)

    def _owned_entry(self, broker: SimulatedBroker, bundle: str) -> RecordEntry:
        entry = self.observer.get(bundle)
        if entry is None or entry.value.state is not ServiceUnitState.OWNED or entry.value.destination != broker.id:
            raise AnswerError(412, f"{bundle} is not owned by {broker.id} now; try again")
        return entry

    def _has_left(self, bundle: str, broker_id: str, before: RecordEntry) -> bool:
        entry = self.observer.get(bundle)
        if entry is None or entry.value.state is ServiceUnitState.FREE:
            return True
        is_later = entry.value.version_id > before.value.version_id + 1
        return entry.value.state is ServiceUnitState.OWNED and (is_later or entry.value.destination != broker_id)

    def _wait_until(self, is_met: Callable[[], bool], complaint: str) -> None:
        if not self.observer.wait_until(is_met, self._cluster.settings.admin_timeout_s):
            raise AnswerError(500, complaint)

    def _path(self, bundle: str) -> str:
        return self._cluster.paths.ownership(LoadManagerKind.EXTENSIBLE, bundle)
