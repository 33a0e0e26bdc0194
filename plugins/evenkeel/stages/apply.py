"""Apply an approved plan to its cluster, and keep a record of the run."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime

from evenkeel import __version__
from evenkeel.adapters.cluster_kind import recognise_kind
from evenkeel.adapters.cluster_source import open_cluster
from evenkeel.adapters.cluster_view import (
    EphemeralOwnership,
    Ownership,
    ServiceUnitOwnership,
    ZooKeeperClusterView,
)
from evenkeel.adapters.guarded_writer import Fence, Journal
from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.pulsar_admin import PulsarAdmin
from evenkeel.adapters.registrations import Registration, read_registrations
from evenkeel.adapters.runs import RunStore
from evenkeel.adapters.step_writers import AdminCallWriter, TransactionWriter
from evenkeel.adapters.zookeeper import ZooKeeperSession
from evenkeel.execution.apply import Outcome, Run
from evenkeel.execution.dry_run import DryWriter
from evenkeel.execution.preflight import require_applicable
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError
from evenkeel.model.moments import format_time
from evenkeel.model.run import RunRecord, RunState, StepResult
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from evenkeel.ports import ClusterView, GuardedWriter


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()


def apply_plan(
    lake: Lake,
    plan: str,
    connection: ClusterConnection,
    settings: Settings,
    dry_run: bool = False,
    on_progress: Callable[[StepResult], None] = lambda result: None,
) -> RunRecord:
    """Apply a plan step by step; applying it again goes on where the journal ends. A dry run writes nothing."""
    plans = PlanStore(lake)
    stored = plans.load(plan)
    clock = SystemClock()
    started_at = clock.now()
    require_applicable(
        stored.plan,
        stored.plan_id,
        plans.read_verdict(stored.plan_id),
        plans.read_approval(stored.plan_id),
        connection.cluster,
        started_at,
    )
    with _open(connection, LoadManager(stored.plan.load_manager), settings) as (view, writer):
        used_writer = DryWriter() if dry_run else writer
        run = Run(stored.plan, stored.plan_id, stored.steps, view, used_writer, clock, settings, on_progress)
        outcome = run.execute()
    record = RunRecord(
        run_id=f"{stored.plan_id[:12]}-{outcome.epoch:06d}",
        plan_id=stored.plan_id,
        cluster=connection.cluster,
        epoch=outcome.epoch,
        state=_state(outcome),
        started_at=format_time(started_at),
        ended_at=format_time(clock.now()),
        dry_run=dry_run,
        results=outcome.results,
        detail=outcome.stopped_because or "",
        library_version=__version__,
    )
    if not dry_run:
        RunStore(lake).write(record)
    return record


def _state(outcome: Outcome) -> RunState:
    return RunState.DONE if outcome.stopped_because is None else RunState.STOPPED


@contextmanager
def _open(
    connection: ClusterConnection, kind: LoadManager, settings: Settings
) -> Iterator[tuple[ClusterView, GuardedWriter]]:
    """Connect the view and the writer that a kind of cluster needs."""
    with open_cluster(connection) as source:
        registrations = read_registrations(source)
        _require_kind(kind, recognise_kind(source, connection.cluster, registrations).load_manager)
    with ExitStack() as stack:
        session = stack.enter_context(_session(connection.zookeeper, connection, settings))
        configuration = session
        if connection.configuration_zookeeper is not None:
            configuration = stack.enter_context(_session(connection.configuration_zookeeper, connection, settings))
        fence = Fence(session, connection.home, settings)
        journal = Journal(session, connection.home, fence)
        ownership, writer = _choose(stack, kind, connection, settings, registrations, fence, journal)
        yield ZooKeeperClusterView(session, configuration, connection, ownership), writer


def _choose(
    stack: ExitStack,
    kind: LoadManager,
    connection: ClusterConnection,
    settings: Settings,
    registrations: list[Registration],
    fence: Fence,
    journal: Journal,
) -> tuple[Ownership, GuardedWriter]:
    root = connection.pulsar_root
    if kind is LoadManager.EXTENSIBLE:
        return ServiceUnitOwnership(root), TransactionWriter(fence, journal, root)
    if kind is LoadManager.MODULAR:
        url_by_broker = {broker.broker_id: broker.web_url for broker in registrations}
        broker_by_url = {url: broker.broker_id for broker in registrations for url in broker.urls}
        admin = stack.enter_context(PulsarAdmin(url_by_broker, settings.admin_call_timeout_s))
        return EphemeralOwnership(root, broker_by_url), AdminCallWriter(fence, journal, root, admin)
    raise RefusedError(f"this version cannot apply a plan to a cluster of kind {kind}", "apply its steps by hand")


def _require_kind(planned: LoadManager, found: LoadManager) -> None:
    if found is not planned:
        raise RefusedError(f"the plan was made for a cluster of kind {planned}, this one is {found}", "plan again")


def _session(hosts: str, connection: ClusterConnection, settings: Settings) -> ZooKeeperSession:
    return ZooKeeperSession(hosts, settings.session_timeout_s, connection.timeout_s)
