"""Apply an approved plan to its cluster, and keep a record of the run."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import datetime

from evenkeel import __version__
from evenkeel.adapters.approval_policy import ApprovalPolicy
from evenkeel.adapters.cluster.connect import LiveCluster
from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.adapters.machine import SystemClock, listening_for_stop
from evenkeel.adapters.push_gateway import push_metrics
from evenkeel.execution.context import RunOptions, RunTask
from evenkeel.execution.decisions import DecisionLog
from evenkeel.execution.measures import measure_plan, measure_run
from evenkeel.execution.preflight import find_window_end, require_applicable, require_approved, require_not_revoked
from evenkeel.execution.run import apply_through_sessions
from evenkeel.gates.expected_checks import expect_of_plan
from evenkeel.model.canonical import canonical_json
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError, InputError, RefusedError, RunStoppedError
from evenkeel.model.metrics import render_metrics
from evenkeel.model.run import RunRecord, StepResult
from evenkeel.model.run_events import Decision, rebuild_run
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from evenkeel.stages.realised_load import read_realised_load
from evenkeel.stages.restore_balancer import restore_before_refusal

log = logging.getLogger(__name__)


def apply_plan(
    lake: Lake,
    plan: str,
    connection: ClusterConnection,
    settings: Settings,
    dry_run: bool = False,
    on_progress: Callable[[StepResult], None] = lambda result: None,
    *,
    approvals: ApprovalPolicy,
    until: datetime | None = None,
) -> RunRecord:
    """Apply a plan step by step; applying it again goes on where the journal ends. A dry run writes nothing.

    `approvals` says whose approval counts.
    Nothing begins after `until`, nor after the end of the plan's own window. SIGTERM and SIGINT end the run in order.
    Where the plan is refused, what an earlier run left switched off is restored first.
    """
    try:
        return _apply(lake, plan, connection, settings, dry_run, on_progress, approvals, until)
    except EvenkeelError:
        if not dry_run:
            restore_before_refusal(connection, settings)
        raise


def _apply(
    lake: Lake,
    plan: str,
    connection: ClusterConnection,
    settings: Settings,
    dry_run: bool,
    on_progress: Callable[[StepResult], None],
    approvals: ApprovalPolicy,
    until: datetime | None,
) -> RunRecord:
    plans, runs, clock, cluster = PlanStore(lake), RunStore(lake), SystemClock(), connection.cluster
    stored = plans.load(plan, cluster)
    gate = expect_of_plan(stored.plan.strategy)
    verdict = plans.read_verdict(stored.plan_id)
    verdict = require_applicable(stored.plan, stored.plan_id, verdict, gate, cluster, clock.now())
    approval, missing = plans.read_approval(stored.plan_id), ""
    try:
        approval = require_approved(stored.plan, stored.plan_id, verdict, approval, approvals)
    except RefusedError as refusal:
        if not dry_run:
            raise
        # Nothing will be written, and whoever is to approve the plan may want to see this first.
        missing = f"still missing: {refusal}"
    require_not_revoked(stored.plan_id, plans.find_revocation(stored.plan_id))
    decisions = DecisionLog(clock, stored.plan_id)
    facts = {"plan_id": stored.plan_id, "cluster": cluster, "dry_run": dry_run, "library_version": __version__}
    facts["approval"] = "none that counts" if approval is None or missing else approval.describe()
    decisions.tell(Decision.STARTED, facts=facts)
    if not dry_run:
        lake.require_writable()
    with listening_for_stop() as should_stop:
        task = RunTask(
            stored.plan,
            stored.plan_id,
            stored.steps,
            LiveCluster(
                connection,
                LoadManager(stored.plan.load_manager),
                settings,
                clock,
                gives_up=lambda: should_stop.is_older_than(settings.stop_wait_s),
            ),
            clock,
            settings,
            decisions,
            is_dry_run=dry_run,
        )
        options = RunOptions(
            brokers=_brokers_of(lake, stored),
            balances=stored.brokers,
            until=find_window_end(stored.plan, until),
            should_stop=should_stop,
            revoked_by=lambda: plans.find_revocation(stored.plan_id),
            read_load=lambda: read_realised_load(connection, settings),
            on_progress=on_progress,
        )
        outcome = apply_through_sessions(task, options)
    detail = "; ".join(filter(None, (outcome.stopped_because, missing)))
    decisions.tell(Decision.ENDED, detail, {"state": str(outcome.state)})
    record = rebuild_run(decisions.events)
    if not dry_run and outcome.is_repeat:
        # Nothing is left of this plan, so it took no fence; another plan's writer may have died all the same.
        restore_before_refusal(connection, settings)
    if not dry_run and not outcome.is_repeat:
        measured = measure_run(record, decisions.events, stored.steps)
        _store(runs, record, decisions, render_metrics(cluster, measured))
        if settings.metrics_push_url is not None:
            measured += measure_plan(stored.plan, stored.plan_id, stored.rejections, verdict)
            text = render_metrics(cluster, measured)
            push_metrics(settings.metrics_push_url, cluster, text, settings.metrics_push_timeout_s)
    return record


def _store(runs: RunStore, record: RunRecord, decisions: DecisionLog, metrics: str) -> None:
    """Store a run's record; where the lake does not take it, the log does, and the caller is told."""
    try:
        runs.write(record, decisions.events, metrics)
    except RefusedError as error:
        log.error("the record of run %s: %s", record.run_id, canonical_json(record.to_json()).decode())
        ending = f"{record.state}: {record.detail}" if record.detail else str(record.state)
        raise RunStoppedError(
            f"run {record.run_id} has ended ({ending}), but its record is in the log only ({error.cause})",
            "check the lake's permissions and free space, and keep the log; ZooKeeper's journal has every step too",
        ) from error


def _brokers_of(lake: Lake, stored: StoredPlan) -> frozenset[str]:
    """The brokers that were registered when the plan was made, by its snapshot; without one, those that it names."""
    try:
        snapshots = SnapshotStore(lake)
        manifest = snapshots.load(stored.plan.cluster, stored.plan.snapshot_id)
        table = snapshots.read_table(manifest, "brokers")
        rows = zip(table["broker_id"].to_pylist(), table["incarnation"].to_pylist(), strict=True)
        return frozenset(broker for broker, incarnation in rows if incarnation is not None)
    except InputError:
        return frozenset(broker for step in stored.steps for broker in (step.source, step.destination) if broker)
