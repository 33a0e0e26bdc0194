"""Stop all writing to a cluster, prove that it is stopped, and allow it again."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.cluster.policy_reader import list_clusters, require_cluster
from evenkeel.adapters.cluster.registrations import read_registrations
from evenkeel.adapters.cluster.runtime_configuration import read_configurations, refuse_other_name
from evenkeel.adapters.cluster.source import open_source
from evenkeel.adapters.fencing.directives import KillSwitch, PulledSwitch
from evenkeel.adapters.fencing.journal import JournalReader
from evenkeel.adapters.fencing.left_switches import describe_left_off, find_left_off
from evenkeel.adapters.fencing.roots import EvenkeelRoots
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession, open_session
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.directives import Directive
from evenkeel.model.errors import EvenkeelError, UnavailableError
from evenkeel.model.run import StepState
from evenkeel.model.settings import Settings
from evenkeel.model.timestamps import format_time

DEFAULT_WAIT_S = 10.0
POLL_S = 0.1
# Nobody writes while these are asked, so there is time; but a cluster in trouble must not hold the switch up for long.
BROKER_TIMEOUT_S = 3.0
MOST_BROKERS_ASKED = 5
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class StoppedRoot:
    """What pulling the kill switch below one Evenkeel root did.

    `has_let_go` is None where nobody was writing. `in_flight` are bundles with a step that has begun and not ended;
    `calls_in_flight` are those of them for which an admin call may have been sent.
    """

    root: str
    pulled: PulledSwitch
    has_let_go: bool | None
    in_flight: tuple[str, ...]
    calls_in_flight: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        writer = self.pulled.writer
        return {
            "root": self.root or "/",
            "is_new": self.pulled.is_new,
            "order": self.pulled.directive.to_json(),
            "fence_before": self.pulled.fence_before,
            "fence_after": self.pulled.fence_after,
            "writer": None if writer is None else writer.to_json(),
            "has_let_go": self.has_let_go,
            "in_flight": list(self.in_flight),
        }


@dataclass(frozen=True, slots=True)
class Stop:
    """What a stop has reached: every root of the cluster, those that it could not stop, and what was left behind."""

    stopped: tuple[StoppedRoot, ...]
    not_stopped: tuple[tuple[str, str], ...]
    left_off: tuple[str, ...]

    @property
    def own(self) -> StoppedRoot:
        """The configured root."""
        return self.stopped[0]


@dataclass(frozen=True, slots=True)
class Resumption:
    """The directive that was in force, None where none was, and other roots that are still stopped, with their own."""

    directive: Directive | None
    still_stopped: tuple[tuple[str, Directive], ...]


def stop_writing(
    connection: ClusterConnection,
    who: str,
    reason: str,
    settings: Settings | None = None,
    wait_s: float = DEFAULT_WAIT_S,
) -> Stop:
    """Pull the kill switch below every Evenkeel root of a cluster, and wait until its writers have released the fence.

    A name that is not the cluster's is refused, and nothing is written.
    """
    directive = Directive(who, format_time(datetime.now(UTC)), reason)
    with open_session(connection) as session:
        if session.stat(EvenkeelPaths(connection.home).writer) is None:
            _require_cluster_to_stop(connection, session, settings or Settings())
        pulled = [(connection, KillSwitch(session, connection).pull(directive))]
        not_stopped = []
        for root in EvenkeelRoots(session, connection).find_others():
            other = replace(connection, evenkeel_root=root)
            try:
                pulled.append((other, KillSwitch(session, other).pull(directive)))
            except EvenkeelError as error:
                not_stopped.append((root or "/", str(error)))
        deadline_s = time.monotonic() + wait_s
        stopped = [_await_end(session, where, switch, deadline_s) for where, switch in pulled]
        left = [find_left_off(session, EvenkeelPaths(where.home)) for where, _ in pulled]
        return Stop(
            tuple(stopped),
            tuple(not_stopped),
            tuple(describe_left_off(status) for found in left for status in found),
        )


def resume_writing(connection: ClusterConnection) -> Resumption:
    """Let writers go on: below the configured root, and below others that the same stop has reached."""
    with _switch(connection) as (session, switch):
        released = switch.release()
        still_stopped = []
        for root in EvenkeelRoots(session, connection).find_others():
            other = KillSwitch(session, replace(connection, evenkeel_root=root))
            in_force = other.read()
            if in_force is not None and in_force == released:
                other.release()
            elif in_force is not None:
                still_stopped.append((root or "/", in_force))
        return Resumption(released, tuple(still_stopped))


@contextmanager
def _switch(connection: ClusterConnection) -> Iterator[tuple[ZooKeeperSession, KillSwitch]]:
    with open_session(connection) as session:
        # A cluster that a writer has ever worked on is known. It needs no second store, which an emergency may have
        # made unreachable, nor the right root.
        if session.stat(EvenkeelPaths(connection.home).fence) is None:
            require_known_cluster(connection, session)
        yield session, KillSwitch(session, connection)


def require_known_cluster(connection: ClusterConnection, session: ZooKeeperSession) -> None:
    """Refuse a cluster name that Pulsar's configuration store does not have."""
    with _configuration_store(connection, session) as configuration:
        require_cluster(configuration, PulsarPaths.of(connection), connection.cluster)


@contextmanager
def _configuration_store(connection: ClusterConnection, session: ZooKeeperSession) -> Iterator[ZooKeeperSession]:
    if connection.configuration_zookeeper is None:
        yield session
        return
    with open_session(connection, hosts=connection.configuration_zookeeper) as configuration:
        yield configuration


def _require_cluster_to_stop(connection: ClusterConnection, session: ZooKeeperSession, settings: Settings) -> None:
    """Refuse a name that is not this cluster's; where a writer has ever worked, what cannot be asked is no obstacle."""
    is_known = session.stat(EvenkeelPaths(connection.home).fence) is not None
    try:
        with _configuration_store(connection, session) as configuration:
            if list_clusters(configuration, PulsarPaths.of(connection)) or not is_known:
                require_cluster(configuration, PulsarPaths.of(connection), connection.cluster)
    except UnavailableError:
        if not is_known:
            raise
    _refuse_other_brokers(connection, session, settings)


def _refuse_other_brokers(connection: ClusterConnection, session: ZooKeeperSession, settings: Settings) -> None:
    """Refuse a name if the brokers belong to another cluster; a cluster whose brokers do not answer can be stopped."""
    hasty = replace(connection, timeout_s=min(connection.timeout_s, BROKER_TIMEOUT_S))
    try:
        with open_source(hasty, session, session, BrokerAccess.from_settings(settings)) as source:
            configurations = read_configurations(source.http, read_registrations(source)[:MOST_BROKERS_ASKED])
    except EvenkeelError as error:
        log.info("no broker confirms the name of the cluster: %s", error)
        return
    refuse_other_name(configurations, connection.cluster)


def _await_end(
    session: ZooKeeperSession, connection: ClusterConnection, pulled: PulledSwitch, deadline_s: float
) -> StoppedRoot:
    """Wait until the writer that was shut out has released the fence, and look at what it has begun."""
    paths, writer = EvenkeelPaths(connection.home), pulled.writer
    if writer is None:
        return StoppedRoot(connection.evenkeel_root, pulled, None, (), ())
    while True:
        stat = session.stat(paths.writer)
        has_let_go = stat is None or stat.czxid != writer.czxid
        # A writer that was stopped lets go, then comes back for a moment, to restore Pulsar's balancer.
        is_over = stat is None and not find_left_off(session, paths)
        if is_over or time.monotonic() >= deadline_s:
            break
        time.sleep(POLL_S)
    try:
        entries = JournalReader(session, paths).entries(writer.plan_id) if writer.plan_id else {}
    except EvenkeelError as error:
        log.warning("which steps are in flight cannot be told: %s", error)
        entries = {}
    begun = [entry for entry in entries.values() if entry.state in (StepState.APPLIED, StepState.INTENDED)]
    calls = tuple(entry.bundle for entry in begun if entry.state is StepState.INTENDED)
    return StoppedRoot(connection.evenkeel_root, pulled, has_let_go, tuple(entry.bundle for entry in begun), calls)
