"""Apply an approved plan to its cluster, and keep a record of the run."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import TypeVar

from evenkeel import __version__
from evenkeel.adapters.broker_access import BrokerAccess
from evenkeel.adapters.broker_clocks import require_good_clock
from evenkeel.adapters.cluster_kind import recognise_kind
from evenkeel.adapters.cluster_source import ClusterSource, open_cluster
from evenkeel.adapters.cluster_view import (
    MODULAR_LEADER,
    EphemeralOwnership,
    ServiceUnitOwnership,
    ZooKeeperClusterView,
)
from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore, StoredPlan
from evenkeel.adapters.pulsar_admin import PulsarAdmin
from evenkeel.adapters.registrations import Registration, read_registrations
from evenkeel.adapters.runs import RunStore
from evenkeel.adapters.snapshots import SnapshotStore
from evenkeel.adapters.step_writers import AdminCallWriter, FencedWriter, Guards, TransactionWriter
from evenkeel.adapters.system_topic_view import SystemTopicClusterView
from evenkeel.adapters.zookeeper import UnconfirmedError, ZooKeeperSession
from evenkeel.execution.account import Outcome
from evenkeel.execution.apply import Run
from evenkeel.execution.assignment import Assignment, Circumstances
from evenkeel.execution.decisions import DecisionLog
from evenkeel.execution.dry_run import DryWriter
from evenkeel.execution.preflight import find_window_end, require_applicable
from evenkeel.execution.way_out import clear_up
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import (
    EvenkeelError,
    FencedOutError,
    InputError,
    RefusedError,
    SessionLostError,
    UnavailableError,
)
from evenkeel.model.run import PlanStanding, RunRecord, RunState, StepResult
from evenkeel.model.run_events import Decision, rebuild_run
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from evenkeel.ports import ClusterView
from evenkeel.stages.realised_load import read_realised_load
from evenkeel.stages.stopping import listening_for_stop

RECONNECT_POLL_S = 1.0
T = TypeVar("T")
log = logging.getLogger(__name__)


class SystemClock:
    """The machine's own time."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic_s(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)


def apply_plan(
    lake: Lake,
    plan: str,
    connection: ClusterConnection,
    settings: Settings,
    dry_run: bool = False,
    on_progress: Callable[[StepResult], None] = lambda result: None,
    *,
    until: datetime | None = None,
) -> RunRecord:
    """Apply a plan step by step; applying it again goes on where the journal ends. A dry run writes nothing.

    Nothing begins after `until`, nor after the end of the plan's own window. SIGTERM and SIGINT end the run in order.
    """
    plans = PlanStore(lake)
    stored = plans.load(plan)
    clock = SystemClock()
    require_applicable(
        stored.plan,
        stored.plan_id,
        plans.read_verdict(stored.plan_id),
        plans.read_approval(stored.plan_id),
        connection.cluster,
        clock.now(),
    )
    decisions = DecisionLog(clock, stored.plan_id)
    decisions.tell(
        Decision.STARTED,
        facts={
            "plan_id": stored.plan_id,
            "cluster": connection.cluster,
            "dry_run": dry_run,
            "library_version": __version__,
        },
    )
    with listening_for_stop() as should_stop:
        circumstances = Circumstances(
            brokers=_brokers_of(lake, stored),
            balances=stored.brokers,
            until=find_window_end(stored.plan, until),
            should_stop=should_stop,
            read_load=lambda: read_realised_load(connection, settings),
            on_progress=on_progress,
        )
        application = _Application(lake, stored, connection, settings, clock, decisions, dry_run)
        outcome = application.carry_out(circumstances)
    decisions.tell(Decision.ENDED, outcome.stopped_because or "", {"state": str(outcome.state)})
    record = rebuild_run(decisions.events)
    if not dry_run:
        RunStore(lake).write(record, decisions.events, decisions.metrics())
    return record


class _Application:
    """One command's way with a plan: a run for each session that it takes."""

    def __init__(
        self,
        lake: Lake,
        stored: StoredPlan,
        connection: ClusterConnection,
        settings: Settings,
        clock: SystemClock,
        decisions: DecisionLog,
        dry_run: bool,
    ) -> None:
        self._lake = lake
        self._stored = stored
        self._connection = connection
        self._settings = settings
        self._clock = clock
        self._decisions = decisions
        self._dry_run = dry_run

    def carry_out(self, circumstances: Circumstances) -> Outcome:
        """Run the plan, and finish its way out with a fresh session where it could not do that itself."""
        outcome = self._run_through_sessions(circumstances)
        if outcome.unfinished is not None and not self._dry_run:
            ended = replace(outcome.unfinished, state=outcome.state, detail=outcome.stopped_because or "")
            self._clear_up(ended, circumstances)
        return outcome

    def _run_through_sessions(self, circumstances: Circumstances) -> Outcome:
        """Run the plan; a lost session ends it, or is followed by a new one, as the settings say."""
        outcome = self._run(circumstances)
        retries = self._settings.session_expired_retries if self._settings.session_expired_policy == "reconnect" else 0
        for _ in range(retries):
            if outcome.state is not RunState.LOST or circumstances.should_stop():
                break
            known = {result.order: result for result in outcome.results}
            again = partial(self._run, replace(circumstances, after_loss=True, known=known))
            try:
                # Without ZooKeeper there is no answer, and right after it no broker is registered yet.
                outcome = self._try_until_back(again, (UnavailableError, InputError), circumstances)
            except EvenkeelError as error:
                # What was done under the first session is told all the same.
                return replace(outcome, state=RunState.STOPPED, stopped_because=str(error))
        return outcome

    def _clear_up(self, ended: PlanStanding, circumstances: Circumstances) -> None:
        """Put back what the run has left; where that fails, the next run of any plan finds it in the standing."""
        log.warning("clearing up after the run, for at most %.0f s", self._settings.safe_mode_deadline_s)
        once = partial(self._clear_up_once, ended)
        passing = (UnavailableError, SessionLostError, UnconfirmedError, FencedOutError)
        try:
            self._try_until_back(once, passing, circumstances)
        except EvenkeelError as error:
            self._decisions.warn(
                [f"Pulsar's switches may still be off, the next run of any plan will put them back: {error}"]
            )

    def _clear_up_once(self, ended: PlanStanding) -> None:
        with _session(self._connection.zookeeper, self._connection, self._settings) as session:
            guards = Guards.of(session, self._connection, self._settings)
            clear_up(FencedWriter(guards, self._connection.pulsar_root, self._settings), ended, self._decisions)

    def _try_until_back(
        self, attempt: Callable[[], T], passing: tuple[type[EvenkeelError], ...], circumstances: Circumstances
    ) -> T:
        """Try at least once, and until ZooKeeper is back, but not past the safe mode's deadline, nor a wish to stop."""
        deadline_s = self._clock.monotonic_s() + self._settings.safe_mode_deadline_s
        while True:
            try:
                return attempt()
            except passing:
                if self._clock.monotonic_s() > deadline_s or circumstances.should_stop():
                    raise
            self._clock.sleep(RECONNECT_POLL_S)

    def _run(self, circumstances: Circumstances) -> Outcome:
        kind = LoadManager(self._stored.plan.load_manager)
        with _open(self._connection, kind, self._settings) as (view, writer, guards):
            guards.native.learn(guards.standings.read_all().values())
            writer.rehearse(self._stored.steps)
            after_loss = circumstances.after_loss or self._was_lost(guards)
            assignment = Assignment(
                self._stored.plan,
                self._stored.plan_id,
                self._stored.steps,
                view,
                DryWriter() if self._dry_run else writer,
                self._clock,
                self._settings,
                self._decisions,
                replace(circumstances, after_loss=after_loss),
            )
            return Run(assignment).execute()

    def _was_lost(self, guards: Guards) -> bool:
        """Whether the last writer of this cluster ended by losing its session, as its run's record tells."""
        epoch = guards.fence.last_epoch()
        return epoch is not None and RunStore(self._lake).has_lost(self._connection.cluster, epoch)


def _brokers_of(lake: Lake, stored: StoredPlan) -> frozenset[str]:
    """The brokers that were registered when the plan was made, as its snapshot tells; else those that it names."""
    try:
        snapshots = SnapshotStore(lake)
        manifest = snapshots.load(stored.plan.cluster, stored.plan.snapshot_id)
        table = snapshots.read_table(manifest, "brokers")
        rows = zip(table["broker_id"].to_pylist(), table["incarnation"].to_pylist(), strict=True)
        return frozenset(broker for broker, incarnation in rows if incarnation is not None)
    except InputError:
        return frozenset(broker for step in stored.steps for broker in (step.source, step.destination) if broker)


@contextmanager
def _open(
    connection: ClusterConnection, kind: LoadManager, settings: Settings
) -> Iterator[tuple[ClusterView, TransactionWriter | AdminCallWriter, Guards]]:
    """Connect the view and the writer that a kind of cluster needs."""
    access = BrokerAccess.from_settings(settings)
    with ExitStack() as stack:
        source = stack.enter_context(open_cluster(connection, access))
        registrations = read_registrations(source)
        _require_kind(kind, recognise_kind(source, connection.cluster, registrations).load_manager)
        require_good_clock(source.http, [r.web_url for r in registrations], settings.clock_offset_limit_s)
        session = stack.enter_context(_session(connection.zookeeper, connection, settings))
        configuration = session
        if connection.configuration_zookeeper is not None:
            configuration = stack.enter_context(_session(connection.configuration_zookeeper, connection, settings))
        guards = Guards.of(session, connection, settings)
        if kind is LoadManager.EXTENSIBLE:
            writer: TransactionWriter | AdminCallWriter = TransactionWriter(guards, connection.pulsar_root, settings)
        else:
            reread = partial(read_registrations, source)
            admin = PulsarAdmin.of(
                registrations, settings.admin_call_timeout_s, access, reread, guards.fence.require_held
            )
            stack.enter_context(admin)
            writer = AdminCallWriter(guards, connection.pulsar_root, settings, admin)
        yield _view(kind, source, guards, configuration, connection, registrations), writer, guards


def _view(
    kind: LoadManager,
    source: ClusterSource,
    guards: Guards,
    configuration: ZooKeeperSession,
    connection: ClusterConnection,
    registrations: list[Registration],
) -> ClusterView:
    """The view of a kind: owners are found in records, in ephemeral nodes, or by asking every broker."""
    session, native = guards.session, guards.native
    if kind is LoadManager.EXTENSIBLE_SYSTEM_TOPIC:
        return SystemTopicClusterView(
            session, configuration, connection, source.http, partial(read_registrations, source), native=native
        )
    if kind is LoadManager.MODULAR:
        broker_by_url = {url: broker.broker_id for broker in registrations for url in broker.urls}
        ephemeral = EphemeralOwnership(connection.pulsar_root, broker_by_url)
        return ZooKeeperClusterView(session, configuration, connection, ephemeral, native, MODULAR_LEADER)
    return ZooKeeperClusterView(
        session, configuration, connection, ServiceUnitOwnership(connection.pulsar_root), native
    )


def _require_kind(planned: LoadManager, found: LoadManager) -> None:
    if found is not planned:
        raise RefusedError(f"the plan was made for a cluster of kind {planned}, this one is {found}", "plan again")


def _session(hosts: str, connection: ClusterConnection, settings: Settings) -> ZooKeeperSession:
    return ZooKeeperSession(hosts, settings.session_timeout_s, connection.timeout_s, connection.security)
