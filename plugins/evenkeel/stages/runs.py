"""All runs of a lake, newest first, and those that only the cluster's ZooKeeper has records of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from evenkeel.adapters.fencing.journal import JournalReader
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import open_session
from evenkeel.model.canonical import short_id
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.run import JournalEntry, RunRecord, RunState, StepState
from evenkeel.model.run_events import name_run
from evenkeel.model.timestamps import format_time

INTERRUPTED = "interrupted"
RUNNING = "running"
_UNKNOWN = "?"


@dataclass(frozen=True, slots=True)
class ListedRun:
    """A run in one line; `state` is done, stopped or lost by its record, running or interrupted where it has none."""

    run_id: str
    plan_id: str
    strategy: str
    cluster: str
    epoch: int
    state: str
    started_at: str
    ended_at: str | None
    settled: int
    skipped: int
    failed: int
    detail: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def list_runs(lake: Lake, cluster: str | None, connection: ClusterConnection | None) -> list[ListedRun]:
    """The runs of a lake, of all clusters or of one; with a connection also those under way and those interrupted."""
    lake.require_existing()
    runs = RunStore(lake)
    records = runs.records(cluster)
    strategies = _Strategies(lake)
    listed = [_from_record(record, strategies) for record in records]
    if connection is not None:
        with open_session(connection) as session:
            journals = JournalReader(session, EvenkeelPaths(connection.home))
            listed += _find_open(journals, connection.cluster, records, strategies)
    return sorted(listed, key=lambda run: (run.started_at, run.epoch, run.run_id), reverse=True)


class _Strategies:
    """The strategy that made a plan, read once for each plan."""

    def __init__(self, lake: Lake) -> None:
        self._plans = PlanStore(lake)
        self._known: dict[str, str] = {}

    def of(self, plan_id: str) -> str:
        if plan_id not in self._known:
            try:
                self._known[plan_id] = self._plans.read_plan(plan_id).strategy
            except InputError:
                # The run is listed all the same; its plan may be in another lake.
                self._known[plan_id] = _UNKNOWN
        return self._known[plan_id]


def _from_record(record: RunRecord, strategies: _Strategies) -> ListedRun:
    return ListedRun(
        run_id=record.run_id,
        plan_id=record.plan_id,
        strategy=strategies.of(record.plan_id),
        cluster=record.cluster,
        epoch=record.epoch,
        state=str(record.state),
        started_at=record.started_at,
        ended_at=record.ended_at,
        settled=record.count(StepState.SETTLED),
        skipped=record.count(StepState.SKIPPED),
        failed=record.count(StepState.FAILED),
        detail=record.detail,
    )


def _find_open(
    journals: JournalReader, cluster: str, records: Sequence[RunRecord], strategies: _Strategies
) -> Iterator[ListedRun]:
    """Runs that left no record: the one under way, and those that were interrupted."""
    recorded = {(record.plan_id, record.epoch) for record in records}
    writer = journals.writer()
    for plan_id, status in sorted(journals.statuses().items()):
        if status is not None and status.state is RunState.DONE:
            continue
        entries = list(journals.entries(plan_id).values())
        epochs = {entry.epoch for entry in entries} | ({status.epoch} if status else set())
        is_at_work = writer is not None and writer.plan_id == plan_id
        epochs |= {writer.epoch} if is_at_work and writer else set()
        for epoch in sorted(epochs):
            if (plan_id, epoch) not in recorded:
                is_running = is_at_work and writer is not None and writer.epoch == epoch
                began_ms = status.at_ms if status is not None and status.epoch == epoch else None
                yield _from_journal(plan_id, epoch, cluster, entries, began_ms, is_running, strategies)


def _from_journal(
    plan_id: str,
    epoch: int,
    cluster: str,
    entries: Sequence[JournalEntry],
    began_ms: int | None,
    is_running: bool,
    strategies: _Strategies,
) -> ListedRun:
    own = [entry for entry in entries if entry.epoch == epoch]
    counts = Counter(entry.state for entry in own)
    moments_ms = [entry.at_ms for entry in own] + ([] if began_ms is None else [began_ms])
    interrupted = f"ended without a record; `evenkeel apply {short_id(plan_id)}` goes on where its journal ends"
    return ListedRun(
        run_id=name_run(plan_id, epoch),
        plan_id=plan_id,
        strategy=strategies.of(plan_id),
        cluster=cluster,
        epoch=epoch,
        state=RUNNING if is_running else INTERRUPTED,
        started_at=format_time(datetime.fromtimestamp(min(moments_ms) / 1000, UTC)) if moments_ms else "",
        ended_at=None,
        settled=counts[StepState.SETTLED],
        skipped=counts[StepState.SKIPPED],
        failed=counts[StepState.FAILED],
        detail="" if is_running else interrupted,
    )
