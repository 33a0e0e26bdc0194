"""Connect to a cluster for a run: the view and the writer that its kind needs, over one session a store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.brokers.admin_api import PulsarAdmin
from evenkeel.adapters.brokers.broker_http import GivesUp
from evenkeel.adapters.brokers.modular_transfer import ModularTransfer, OwnerNode
from evenkeel.adapters.cluster.broker_clocks import fetch_clock_offsets, require_good_clock
from evenkeel.adapters.cluster.kind import recognise_kind
from evenkeel.adapters.cluster.migration import require_no_migration
from evenkeel.adapters.cluster.ownership import ownership_nodes
from evenkeel.adapters.cluster.registrations import Registration, read_registrations
from evenkeel.adapters.cluster.runtime_configuration import find_syncer, find_values_to_write_back
from evenkeel.adapters.cluster.source import ClusterSource, only_reading, open_source
from evenkeel.adapters.cluster.views import SystemTopicClusterView, ZooKeeperClusterView
from evenkeel.adapters.fencing.native_balancer import SWITCHES
from evenkeel.adapters.fencing.step_writers import (
    AdminCallWriter,
    FencedWriter,
    Guards,
    ModularWriter,
    TransactionWriter,
)
from evenkeel.adapters.machine import SystemClock
from evenkeel.adapters.zookeeper.session import ZooKeeperSession, open_session, open_stores
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from evenkeel.ports import Clock, ClusterView, GuardedWriter, PlanStatusKeeper


class LiveCluster:
    """A `ClusterConnector` to a running cluster of the kind that a plan was made for."""

    def __init__(
        self,
        connection: ClusterConnection,
        planned_kind: LoadManager,
        settings: Settings,
        clock: Clock | None = None,
        gives_up: GivesUp = lambda: False,
    ) -> None:
        """`gives_up` says when brokers that do not answer are not waited for any more."""
        self._gives_up = gives_up
        self._connection = connection
        self._planned_kind = planned_kind
        self._settings = settings
        self._clock = clock or SystemClock()

    @contextmanager
    def connect(self) -> Iterator[tuple[ClusterView, GuardedWriter]]:
        """Open new sessions; refuses a cluster of another kind, and a machine whose clock is off, before any write."""
        connection, settings = self._connection, self._settings
        access = BrokerAccess.from_settings(settings)
        with (
            open_stores(connection, settings.session_timeout_s) as (session, configuration),
            open_source(connection, session, configuration, access, self._gives_up) as source,
        ):
            with only_reading():
                registrations = read_registrations(source)
                migration = require_no_migration(session, source.pulsar)
                kind = recognise_kind(source, connection.cluster, registrations)
                self._require_kind(kind.load_manager)
                require_good_clock(fetch_clock_offsets(source.http, registrations), settings.clock_offset_limit_s)
            write_back = find_values_to_write_back(kind.configurations, registrations, SWITCHES)
            guards = Guards.of(session, connection, settings, self._clock, write_back)
            warnings = [told for told in (migration, find_syncer(kind.configurations)) if told is not None]
            view = self._view(source, guards, configuration, registrations, warnings)
            if self._planned_kind is LoadManager.EXTENSIBLE:
                yield view, TransactionWriter(guards, settings)
                return
            reread = partial(read_registrations, source)
            timeout_s, may_go_on = settings.admin_call_timeout_s, guards.fence.require_held
            with PulsarAdmin.of(registrations, timeout_s, access, reread, may_go_on) as admin:
                if self._planned_kind is LoadManager.MODULAR:
                    yield view, self._modular_writer(guards, admin, registrations)
                else:
                    yield view, AdminCallWriter(guards, settings, admin)

    @contextmanager
    def connect_keeper(self) -> Iterator[PlanStatusKeeper]:
        """Open a new session for teardown alone: it needs no broker."""
        with open_session(self._connection, self._settings.session_timeout_s) as session:
            yield FencedWriter(Guards.of(session, self._connection, self._settings, self._clock), self._settings)

    def _modular_writer(
        self, guards: Guards, admin: PulsarAdmin, registrations: Sequence[Registration]
    ) -> ModularWriter:
        nodes = ownership_nodes(guards.paths, LoadManager.MODULAR, registrations)

        def read_owner(bundle: str) -> OwnerNode | None:
            (node,) = guards.session.get([nodes.path(bundle)])
            owner = None if node is None else nodes.decode(node).owner
            return None if node is None or owner is None else OwnerNode(owner, node.czxid)

        wait_s, may_go_on = self._settings.unload_again_after_s, guards.fence.require_held
        return ModularWriter(guards, self._settings, admin, ModularTransfer(admin, read_owner, wait_s, may_go_on))

    def _require_kind(self, found: LoadManager) -> None:
        if found is not self._planned_kind:
            raise RefusedError(
                f"the plan was made for a cluster of kind {self._planned_kind}, this one is {found}", "plan again"
            )

    def _view(
        self,
        source: ClusterSource,
        guards: Guards,
        configuration: ZooKeeperSession,
        registrations: Sequence[Registration],
        warnings: Sequence[str],
    ) -> ClusterView:
        """Owners are found in records, in ephemeral nodes, or by asking every broker."""
        session, connection, kind = guards.session, self._connection, self._planned_kind
        if kind is LoadManager.EXTENSIBLE_SYSTEM_TOPIC:
            reread = partial(read_registrations, source)
            return SystemTopicClusterView(
                session, configuration, connection, source.http, reread, native=guards.native, warnings=warnings
            )
        nodes = ownership_nodes(source.pulsar, kind, registrations)
        return ZooKeeperClusterView(session, configuration, connection, kind, nodes, guards.native, warnings)
