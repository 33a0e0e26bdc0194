"""Roll a run back by a plan of its own, made from the journal and a fresh snapshot."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime

from evenkeel.adapters.fencing.journal import JournalReader
from evenkeel.adapters.lake.plans import PlanStore, StoredPlan
from evenkeel.adapters.lake.references import LATEST
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import open_session
from evenkeel.model.canonical import short_id
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.outside_json import show
from evenkeel.model.plan import StepKind
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.settings import Settings
from evenkeel.model.timestamps import format_time
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.manual.inverse import AppliedStep, build_rollback, is_left_to_undo, require_inverse
from evenkeel.stages.manual import FreshSnapshot, read_fresh, store_plan

_DONE = (StepState.SETTLED, StepState.APPLIED, StepState.INTENDED, StepState.FAILED)
_ENDED = (StepState.SETTLED, StepState.SKIPPED)
_PLAN_ID = re.compile(r"[0-9a-f]{64}")
log = logging.getLogger(__name__)


def plan_rollback(lake: Lake, run: str, connection: ClusterConnection, settings: Settings) -> StoredPlan:
    """Store the plan that undoes what the journal says was done for a run's plan; refused if that is undone already.

    All runs of one plan are one piece of work, so everything in its journal is rolled back, whichever run did it. What
    an earlier rollback had to leave may be rolled back now.
    """
    plan_id, fresh, made = _build(lake, run, connection, settings)
    rollback = store_plan(lake, fresh, made)
    _remember(lake, plan_id, rollback.plan_id)
    return rollback


def preview_rollback(lake: Lake, run: str, connection: ClusterConnection, settings: Settings) -> PlannedCluster:
    """The plan that `plan_rollback` would store now, stored nowhere; refused where that would be."""
    return _build(lake, run, connection, settings)[2]


def _build(
    lake: Lake, run: str, connection: ClusterConnection, settings: Settings
) -> tuple[str, FreshSnapshot, PlannedCluster]:
    """The plan of a run, the cluster as it is now, and the plan that undoes the run."""
    stored = PlanStore(lake).load(find_plan_of(lake, run, connection.cluster))
    if stored.plan.cluster != connection.cluster:
        raise RefusedError(
            f"run {run} was made on cluster {stored.plan.cluster!r}, not {connection.cluster!r}",
            "give the run's own cluster",
        )
    require_inverse(stored.plan, stored.steps)
    with open_session(connection, settings.session_timeout_s) as session:
        journals = JournalReader(session, EvenkeelPaths(connection.home))
        entries = list(journals.entries(stored.plan_id).values())
        ended = _require_none_open(lake, stored.plan_id, journals)
        undone = _find_undone(lake, stored.plan_id, journals)
    applied = [step for step in _match(stored, entries) if step.entry.state in _DONE]
    if not applied:
        raise RefusedError(
            f"the journal of plan {short_id(stored.plan_id)} records no step that was done",
            "there is nothing to roll back; `evenkeel runs` lists the runs",
        )
    left = [step for step in applied if step.entry.bundle not in undone]
    fresh = read_fresh(connection, settings)
    made = build_rollback(fresh.loaded, stored.plan_id, left)
    if ended is not None and not is_left_to_undo(made):
        raise RefusedError(
            f"plan {short_id(stored.plan_id)} is rolled back already, by plan {short_id(ended)}",
            f"to undo the rollback, roll back {short_id(ended)}",
        )
    return stored.plan_id, fresh, made


def find_plan_of(lake: Lake, run: str, cluster: str | None = None) -> str:
    """The plan of a run; a run that crashed has no record, but its id starts with its plan's."""
    runs = RunStore(lake)
    if run == LATEST or any(name.startswith(run) for name in runs.ids()):
        return runs.load(run, cluster).plan_id
    try:
        return PlanStore(lake).resolve(run.partition("-")[0])
    except InputError as error:
        raise InputError(
            f"no run and no plan in {lake.uri} starts with {show(run)}", "`evenkeel runs` lists the runs"
        ) from error


def _match(stored: StoredPlan, entries: list[JournalEntry]) -> list[AppliedStep]:
    kinds = {step.order: StepKind(step.kind) for step in stored.steps}
    foreign = [entry for entry in entries if entry.order not in kinds]
    if foreign:
        raise RefusedError(
            f"journal entry {foreign[0].order} does not belong to plan {short_id(stored.plan_id)}",
            "inspect the plan's journal; move single bundles back with `evenkeel move`",
        )
    return [AppliedStep(kinds[entry.order], entry) for entry in entries]


def _require_none_open(lake: Lake, plan_id: str, journals: JournalReader) -> str | None:
    """Refuse while an earlier rollback is unfinished; returns the latest that has ended, if any has.

    One that never began does not count.
    """
    ended_at: dict[str, int] = {}
    for earlier in _rollbacks_of(lake, plan_id):
        entries = list(journals.entries(earlier).values())
        if not any(entry.state in _DONE for entry in entries):
            continue
        try:
            stored = PlanStore(lake).load(earlier)
        except InputError as error:
            log.warning("rollback plan %s cannot be read and is not counted: %s", short_id(earlier), error)
            continue
        ended = {entry.order for entry in entries if entry.state in _ENDED}
        if all(step.order in ended for step in stored.steps):
            ended_at[earlier] = max(entry.at_ms for entry in entries)
        elif datetime.now(UTC) < stored.plan.expires_at:
            raise RefusedError(
                f"a rollback of plan {short_id(plan_id)} has begun and not ended, by plan {short_id(earlier)}",
                f"go on with `evenkeel apply {short_id(earlier)}`",
            )
    return max(ended_at, key=ended_at.__getitem__, default=None)


def _find_undone(lake: Lake, plan_id: str, journals: JournalReader) -> set[str]:
    """The bundles that earlier rollbacks have moved back, unless that was undone in its turn.

    If one is where the run put it all the same, somebody else has moved it there since.
    """
    undone: set[str] = set()
    for earlier in _rollbacks_of(lake, plan_id):
        settled = {entry.bundle for entry in journals.entries(earlier).values() if entry.state is StepState.SETTLED}
        undone |= settled - _find_undone(lake, earlier, journals)
    return undone


def _remember(lake: Lake, plan_id: str, rollback: str) -> None:
    made_at = format_time(datetime.now(UTC))
    path = f"plans/{plan_id}/rollbacks/{rollback}.json"
    if not lake.exists(path):
        lake.put_json(path, {"plan_id": plan_id, "rollback_plan_id": rollback, "made_at": made_at})


def _rollbacks_of(lake: Lake, plan_id: str) -> list[str]:
    names = [name.removesuffix(".json") for name in lake.names(f"plans/{plan_id}/rollbacks")]
    # The names become paths in ZooKeeper.
    return [name for name in names if _PLAN_ID.fullmatch(name)]
