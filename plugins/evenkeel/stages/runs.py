"""All runs of a lake, newest first, together with those that a cluster's ZooKeeper alone knows of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from evenkeel.adapters.journals import Journals
from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore
from evenkeel.adapters.runs import RunStore
from evenkeel.adapters.zookeeper import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.moments import format_time
from evenkeel.model.run import JournalEntry, RunRecord, RunState, StepState

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
    """The runs of a lake, of all clusters or of one; with a connection also those that have not ended by themselves."""
    runs = RunStore(lake)
    records = [record for record in map(runs.load, runs.ids()) if cluster in (None, record.cluster)]
    strategies = _Strategies(lake)
    listed = [_from_record(record, strategies) for record in records]
    if connection is not None:
        with ZooKeeperSession(
            connection.zookeeper, connection.timeout_s, connection.timeout_s, connection.security
        ) as session:
            listed += _find_open(Journals(session, connection), connection.cluster, records, strategies)
    return sorted(listed, key=lambda run: (run.started_at, run.epoch, run.run_id), reverse=True)


class _Strategies:
    """By which strategy a plan was made, read once a plan."""

    def __init__(self, lake: Lake) -> None:
        self._plans = PlanStore(lake)
        self._known: dict[str, str] = {}

    def of(self, plan_id: str) -> str:
        if plan_id not in self._known:
            try:
                self._known[plan_id] = self._plans.load(plan_id).plan.strategy
            except InputError:
                # The run is told of all the same; its plan may lie in another lake.
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
    journals: Journals, cluster: str, records: Sequence[RunRecord], strategies: _Strategies
) -> Iterator[ListedRun]:
    """Runs that began and left no record: the one under way, and those that broke off."""
    recorded = {(record.plan_id, record.epoch) for record in records}
    writer = journals.writer()
    for plan_id in journals.plan_ids():
        standing = journals.standing(plan_id)
        if standing is not None and standing.state is RunState.DONE:
            continue
        entries = journals.entries(plan_id)
        epochs = {entry.epoch for entry in entries} | ({standing.epoch} if standing else set())
        is_at_work = writer is not None and writer.plan_id == plan_id
        epochs |= {writer.epoch} if is_at_work and writer else set()
        for epoch in sorted(epochs):
            if (plan_id, epoch) not in recorded:
                is_running = is_at_work and writer is not None and writer.epoch == epoch
                began_ms = standing.at_ms if standing is not None and standing.epoch == epoch else None
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
    broken_off = f"it ended without a word; `evenkeel apply {plan_id[:12]}` goes on where its journal ends"
    return ListedRun(
        run_id=f"{plan_id[:12]}-{epoch:06d}",
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
        detail="" if is_running else broken_off,
    )
