"""Runs as the page shows them: the list, and one run with its progress by wave, while it goes on and afterwards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import EvenkeelError, InputError
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, PlanStatus, RunRecord, StepState
from evenkeel.model.run_events import Decision, RunEvent, name_run
from evenkeel.model.timestamps import format_time, parse_time
from evenkeel.orchestration.connection import ClusterAccess
from evenkeel.stages.rollback import find_plan_of, preview_rollback
from evenkeel.stages.runs import ListedRun, list_runs
from evenkeel.web.live_state import read_journal, read_live
from evenkeel.web.plan_states import load_run
from evenkeel.web.plan_views import load_plan

RUNNING, INTERRUPTED = "running", "interrupted"
MOST_PROBLEMS = 200
MOST_EVENTS = 300
MOST_PREVIEWED = 2_000
_IN_FLIGHT = (StepState.APPLIED, StepState.INTENDED)
_TOLD = (
    Decision.STARTED,
    Decision.FENCED_IN,
    Decision.WAITED,
    Decision.PAUSED,
    Decision.RESTORED,
    Decision.WARNED,
    Decision.WAVE_SETTLED,
    Decision.SESSION_LOST,
    Decision.FENCED_OUT,
    Decision.ENDED,
)


def list_all_runs(access: ClusterAccess, offset: int, limit: int) -> dict[str, Any]:
    """A page of the cluster's runs, the last first; those that only ZooKeeper knows are among them if it answers."""
    live_error = None
    try:
        runs: Sequence[ListedRun] = list_runs(access.lake, access.cluster, access.connection)
    except EvenkeelError as error:
        live_error = str(error)
        runs = list_runs(access.lake, access.cluster, None)
    page = runs[offset : offset + limit]
    return {
        "runs": [run.to_json() for run in page],
        "offset": offset,
        "has_more": len(runs) > offset + limit,
        "live_error": live_error,
    }


def describe_run(access: ClusterAccess, run_id: str) -> dict[str, Any]:
    """One run: its record if it has ended, else what the journal says so far; waves either way."""
    record = _find_record(access, run_id) or _find_later_record(access, run_id)
    plan_id = find_plan_of(access.lake, run_id, access.cluster) if record is None else record.plan_id
    run_id = run_id if record is None else record.run_id
    steps = load_plan(access, plan_id).steps
    live = read_live(access.connection)
    if record is not None:
        states = {result.order: result.state for result in record.results}
        problems = [
            {"order": r.order, "bundle": r.bundle, "state": str(r.state), "detail": r.detail}
            for r in record.results
            if r.state in (StepState.SKIPPED, StepState.FAILED)
        ]
        head, error = _head_of(record), ""
    else:
        entries, error = read_journal(access.connection, plan_id)
        states = {entry.order: entry.state for entry in entries}
        problems = [
            {"order": e.order, "bundle": e.bundle, "state": str(e.state), "detail": e.detail}
            for e in entries
            if e.state in (StepState.SKIPPED, StepState.FAILED)
        ]
        is_running = live.writer is not None and live.writer.plan_id == plan_id
        head = _head_of_journal(run_id, entries, live.statuses.get(plan_id), is_running)
    counts = Counter(states.values())
    done = counts[StepState.SETTLED] + counts[StepState.SKIPPED] + counts[StepState.FAILED] + counts[StepState.PROVED]
    return {
        "run_id": run_id,
        "plan_id": plan_id,
        "cluster": access.cluster,
        "now": format_time(datetime.now(UTC)),
        **head,
        "steps": len(steps),
        "done": done,
        "counts": {str(state): counts[state] for state in StepState},
        "waves": _waves(steps, states),
        "seconds_left": _estimate(head, done, len(steps)),
        "problems": problems[:MOST_PROBLEMS],
        "problems_in_all": len(problems),
        "events": _events(access, run_id) if record is not None else [],
        "live": live.to_json(),
        "journal_error": error or None,
    }


def describe_rollback(access: ClusterAccess, run_id: str) -> dict[str, Any]:
    """What undoing a run would do now: a plan that is made from a fresh look at the cluster, and stored nowhere."""
    try:
        made = preview_rollback(access.lake, run_id, access.connection, access.settings)
    except EvenkeelError as error:
        return {"run_id": run_id, "refused": error.cause, "remedy": error.remedy, "steps": [], "left": []}
    return {
        "run_id": run_id,
        "refused": None,
        "remedy": None,
        "sessions": made.plan.disruption.sessions,
        "client_seconds": made.plan.disruption.client_seconds,
        "steps_in_all": len(made.steps),
        "steps": [
            {"bundle": step.bundle, "source": step.source, "destination": step.destination, "reason": step.reason}
            for step in made.steps[:MOST_PREVIEWED]
        ],
        "left": [{"bundle": row.bundle, "detail": row.detail} for row in made.rejections[:MOST_PREVIEWED]],
    }


def _find_record(access: ClusterAccess, run_id: str) -> RunRecord | None:
    if not access.lake.exists(f"runs/{run_id}/run.json"):
        return None
    record = load_run(access.lake.uri, run_id)
    if record.cluster != access.cluster:
        raise InputError(f"run {run_id} is not of cluster {access.cluster!r}", "open its own cluster")
    return record


def _find_later_record(access: ClusterAccess, run_id: str) -> RunRecord | None:
    """The record of a run that took the fence again after this epoch: its record has the name of its last one.

    A run does so to restore Pulsar's balancer after it was stopped, or with a new session.
    """
    prefix, _, epoch = run_id.partition("-")
    for name in RunStore(access.lake).ids():
        if not name.startswith(f"{prefix}-") or name <= run_id:
            continue
        record = _find_record(access, name)
        if record is not None and int(epoch) in _epochs_of(access.lake.uri, name):
            return record
    return None


@lru_cache(maxsize=64)
def _epochs_of(lake_uri: str, run_id: str) -> frozenset[int]:
    """The epochs at which a run has decided something."""
    try:
        return frozenset(event.epoch for event in RunStore(Lake(lake_uri)).read_events(run_id))
    except InputError:
        return frozenset()


def _head_of(record: RunRecord) -> dict[str, Any]:
    return {
        "state": str(record.state),
        "epoch": record.epoch,
        "started_at": record.started_at,
        "ended_at": record.ended_at,
        "dry_run": record.dry_run,
        "detail": record.detail,
    }


def _head_of_journal(
    run_id: str, entries: Sequence[JournalEntry], status: PlanStatus | None, is_running: bool
) -> dict[str, Any]:
    epoch = int(run_id.rpartition("-")[2])
    if not is_running and not any(name_run(e.plan_id, e.epoch) == run_id for e in entries):
        raise InputError(f"no run {run_id}", "choose one from the list of runs")
    moments_ms = [entry.at_ms for entry in entries if entry.epoch == epoch]
    # An entry has the time of its last change, so the status, which is written first, is nearer to the start.
    moments_ms += [status.at_ms] if status is not None and status.epoch == epoch else []
    began_ms = min(moments_ms, default=None)
    return {
        "state": RUNNING if is_running else INTERRUPTED,
        "epoch": epoch,
        "started_at": None if began_ms is None else format_time(datetime.fromtimestamp(began_ms / 1000, UTC)),
        "ended_at": None,
        "dry_run": False,
        "detail": "" if is_running else "the run ended without a record; applying the plan again resumes it",
    }


def _waves(steps: Sequence[Step], states: Mapping[int, StepState]) -> list[dict[str, int]]:
    """Each wave with how many of its steps are in which state."""
    waves: dict[int, Counter[str]] = {}
    for step in steps:
        state = states.get(step.order)
        name = "left" if state is None else "in_flight" if state in _IN_FLIGHT else str(state)
        waves.setdefault(step.wave, Counter())[name] += 1
    names = ("settled", "in_flight", "skipped", "failed", "proved", "left")
    return [
        {"wave": wave, "steps": sum(counts.values()), **{name: counts[name] for name in names}}
        for wave, counts in sorted(waves.items())
    ]


def _estimate(head: Mapping[str, Any], done: int, steps: int) -> float | None:
    """Seconds until a running run ends, if the rest goes as quickly as what is done."""
    if head["state"] != RUNNING or not done or head["started_at"] is None:
        return None
    passed_s = (datetime.now(UTC) - parse_time(head["started_at"])).total_seconds()
    return max(0.0, passed_s / done * (steps - done))


def _events(access: ClusterAccess, run_id: str) -> list[dict[str, Any]]:
    """What the run decided, without the single steps; a run may have none."""
    try:
        events: Sequence[RunEvent] = RunStore(access.lake).read_events(run_id)
    except InputError:
        return []
    told = [event for event in events if event.decision in _TOLD]
    return [{"at": event.at, "what": str(event.decision), "detail": event.detail} for event in told[:MOST_EVENTS]]
