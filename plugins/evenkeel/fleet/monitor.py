"""The leader's monitor: bundles that are orphaned, stuck in flight or long dead are put right by force.

A leader whose own session was replaced a moment ago may be the one that is ill: what it takes for the absence of others
may be its own. It overrides nothing until its session has been stable for a while, so that after an outage of
ZooKeeper the brokers have time to come back to what they own.
"""

from __future__ import annotations

import logging
import threading

from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.fleet.extensible import ExtensibleLoadManager, RecordEntry
from evenkeel.model.service_unit import ServiceUnitState

MILLISECONDS_PER_S = 1000.0

_log = logging.getLogger(__name__)


class LeaderMonitor:
    """Looks over all records in intervals, and at once when a broker's registration is lost."""

    def __init__(self, cluster: Cluster, manager: ExtensibleLoadManager) -> None:
        self._cluster = cluster
        self._manager = manager
        self._one_pass = threading.Lock()
        self._lock = threading.Lock()
        self._is_due = False

    def run_pass(self) -> None:
        """Override what needs it; without a leader nobody does."""
        leader = self._cluster.leader
        if leader is None:
            return
        shaky_s = self._shaky_for_s(leader)
        if shaky_s > 0:
            self._look_again_in(shaky_s)
            return
        with self._one_pass:
            for bundle, entry in self._manager.observer.entries().items():
                if self._is_past_tombstone(entry):
                    self._manager.remove(leader, bundle)
                elif self._needs_override(entry):
                    self._override(leader, bundle, entry)

    def _shaky_for_s(self, leader: SimulatedBroker) -> float:
        """How long the leader's session will yet count as shaky."""
        if leader.new_session_s is None:
            return 0.0
        return leader.new_session_s + self._cluster.settings.stable_session_s - self._cluster.clock()

    def _look_again_in(self, delay_s: float) -> None:
        with self._lock:
            if self._is_due:
                return
            self._is_due = True
        self._cluster.timers.after(delay_s, self._run_due_pass)

    def _run_due_pass(self) -> None:
        with self._lock:
            self._is_due = False
        self.run_pass()

    def _is_past_tombstone(self, entry: RecordEntry) -> bool:
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
        # An unregistered broker gets a health check before its bundles are taken from it.
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
