"""Brokers of the modular load manager: ownership is an ephemeral node of the owner's own session.

A destination given with an unload is only a hint: the leader keeps it in memory, and the next lookup of the
bundle uses it once. It is lost when the leader changes.
"""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError

from evenkeel.fleet import documents
from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.fleet.layout import child_names
from evenkeel.fleet.load_manager import ClientSwarm
from evenkeel.fleet.observer import Entry, OwnershipObserver
from evenkeel.fleet.placement import Placement
from evenkeel.fleet.reports import LoadReports
from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.fleet.splitting import add_boundaries
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import InputError

WHOLE_RING = "0x00000000_0xffffffff"

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
        self._lock = threading.Lock()
        self._held: dict[str, str] = {}
        self._hints: dict[str, str] = {}
        self._hints_of_leader: str | None = None

    def start(self, timeout_s: float) -> None:
        self.observer.start(timeout_s)

    def stop(self) -> None:
        self.observer.stop()

    def seed(self, owners: Mapping[str, str]) -> None:
        taken = {bundle: self._cluster.brokers[owner] for bundle, owner in owners.items()}
        created = []
        for bundle, broker in taken.items():
            self._held[bundle] = broker.id
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
        with self._lock:
            self._held = {bundle: owner for bundle, owner in self._held.items() if owner != broker_id}
        self.reports.forget(broker_id)

    def on_registry_change(self) -> None:
        for broker in self._cluster.alive_brokers():
            if broker.id not in self._cluster.registered:
                self._cluster.timers.submit(self._register_again, broker)

    def owners(self) -> dict[str, str]:
        return {bundle: entry.value for bundle, entry in self.observer.entries().items()}

    def owner_of(self, bundle: str) -> str | None:
        entry = self.observer.get(bundle)
        return entry.value if entry else None

    def responsible_for(self, bundle: str) -> str | None:
        return self.owner_of(bundle)

    def assign(self, broker: SimulatedBroker, bundle: str) -> bool:
        if self.observer.get(bundle) is not None:
            return True
        chosen = self._cluster.alive(self._take_hint(bundle) or self.placement.select(bundle))
        if chosen is None:
            return False
        broker.assignments += 1
        self._own(chosen, bundle)
        return True

    def look_up(self, broker: SimulatedBroker, bundle: str) -> str | None:
        if not self.assign(broker, bundle):
            return None
        self.observer.wait_until(lambda: self.observer.get(bundle) is not None, self._cluster.settings.admin_timeout_s)
        return self.owner_of(bundle)

    def hint(self, bundle: str, destination: str) -> None:
        """Remember, as the leader, where the next lookup of a bundle should put it."""
        with self._lock:
            self._forget_hints_of_old_leader()
            self._hints[bundle] = destination

    def unload(self, broker: SimulatedBroker, bundle: str, destination: str | None) -> None:
        if destination is not None:
            self.hint(bundle, destination)
        with self._lock:
            self._held.pop(bundle, None)
        time.sleep(self._cluster.settings.hand_over_delay_s)
        self._delete(broker, bundle)
        self.observer.wait_until(lambda: self._has_left(broker, bundle), self._cluster.settings.admin_timeout_s)

    def split(self, broker: SimulatedBroker, bundle: str, cuts: Sequence[int], must_unload: bool) -> None:
        parent = BundleName.parse(bundle)
        children = [str(child) for child in child_names(parent, cuts)]
        for child in children:
            self._own(broker, child)
        add_boundaries(broker.client, self._cluster.paths, self._cluster.catalogue, parent.namespace, cuts)
        self.unload(broker, bundle, None)
        if must_unload:
            for child in children:
                self.unload(broker, child, None)

    def _own(self, broker: SimulatedBroker, bundle: str) -> None:
        with self._lock:
            self._held[bundle] = broker.id
        try:
            broker.client.create(self._path(bundle), self._document(broker), ephemeral=True, makepath=True)
        except NodeExistsError:
            stat = broker.client.exists(self._path(bundle))
            if stat is None or stat.ephemeralOwner != broker.session_id:
                # Another broker was faster; the observer will tell which.
                with self._lock:
                    self._held.pop(bundle, None)

    def _delete(self, broker: SimulatedBroker, bundle: str) -> None:
        try:
            broker.client.delete(self._path(bundle))
        except NoNodeError:
            _log.debug("%s was given up already", bundle)

    def _on_change(self, bundle: str, entry: Entry[str] | None) -> None:
        """React to an ownership node; runs on the observer's thread, so it only plans."""
        self.placement.settle(bundle)
        if entry is not None:
            with self._lock:
                # A node of another session ends the claim of whoever held the bundle before. It makes no new
                # claim: a late event must not revive the claim of a broker that is giving the bundle up.
                if self._held.get(bundle) != entry.value:
                    self._held.pop(bundle, None)
            return
        holder = self._cluster.alive(self._held.get(bundle))
        if holder is not None:
            self._cluster.timers.submit(self._own, holder, bundle)
        else:
            self.clients.cut(bundle)

    def _register_again(self, broker: SimulatedBroker) -> None:
        if broker.is_alive and broker.id not in self._cluster.registered:
            broker.register(self._cluster.paths.broker(broker.id), self.reports.build(broker))

    def _take_hint(self, bundle: str) -> str | None:
        with self._lock:
            self._forget_hints_of_old_leader()
            destination = self._hints.pop(bundle, None)
        return destination if self._cluster.alive(destination) else None

    def _forget_hints_of_old_leader(self) -> None:
        leader = self._cluster.leader
        incarnation = f"{leader.id} {leader.started_ms}" if leader else None
        if incarnation != self._hints_of_leader:
            self._hints.clear()
            self._hints_of_leader = incarnation

    def _has_left(self, broker: SimulatedBroker, bundle: str) -> bool:
        entry = self.observer.get(bundle)
        return entry is None or entry.value != broker.id or self._held.get(bundle) is not None

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
