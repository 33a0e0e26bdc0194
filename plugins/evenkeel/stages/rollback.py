"""The way back from a run as a plan of its own, made from the journal and a fresh snapshot."""

from __future__ import annotations

from datetime import UTC, datetime

from evenkeel.adapters.journals import Journals
from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore, StoredPlan
from evenkeel.adapters.runs import RunStore
from evenkeel.adapters.zookeeper import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.moments import format_time
from evenkeel.model.plan import StepKind
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.settings import Settings
from evenkeel.planning.inverse import Deed, is_left_to_undo, plan_way_back
from evenkeel.stages.manual import look_at, store_plan

_DONE = (StepState.SETTLED, StepState.APPLIED, StepState.INTENDED, StepState.FAILED)
_ENDED = (StepState.SETTLED, StepState.SKIPPED)


def plan_rollback(lake: Lake, run: str, connection: ClusterConnection, settings: Settings) -> StoredPlan:
    """Store the plan that undoes what the journal says was done for a run's plan; refused where that was done already.

    All runs of one plan are one piece of work, so all that its journal holds goes back, whichever run did it. What an
    earlier way back had to leave may go back now.
    """
    stored = PlanStore(lake).load(find_plan_of(lake, run))
    if stored.plan.cluster != connection.cluster:
        raise RefusedError(
            f"run {run} was made on cluster {stored.plan.cluster!r}, not {connection.cluster!r}",
            "name the run's own cluster",
        )
    with ZooKeeperSession(
        connection.zookeeper, settings.session_timeout_s, connection.timeout_s, connection.security
    ) as session:
        journals = Journals(session, connection)
        entries = journals.entries(stored.plan_id)
        ended = _require_none_open(lake, stored.plan_id, journals)
        undone = _find_undone(lake, stored.plan_id, journals)
    deeds = [deed for deed in _match(stored, entries) if deed.entry.state in _DONE]
    if not deeds:
        raise RefusedError(
            f"the journal of plan {stored.plan_id[:12]} has no step that was done",
            "there is nothing to undo; `evenkeel runs` lists the runs",
        )
    left = [deed for deed in deeds if deed.entry.bundle not in undone]
    made = plan_way_back(look_at(lake, connection, settings), stored.plan_id, left)
    if ended is not None and not is_left_to_undo(made):
        raise RefusedError(
            f"plan {stored.plan_id[:12]} was rolled back already, by plan {ended[:12]}",
            f"to undo the rollback, roll back {ended[:12]}",
        )
    way_back = store_plan(lake, made)
    _remember(lake, stored.plan_id, way_back.plan_id)
    return way_back


def find_plan_of(lake: Lake, run: str) -> str:
    """The plan of a run; one that crashed left no record, but its id begins as its plan's does."""
    if any(name.startswith(run) for name in RunStore(lake).ids()):
        return RunStore(lake).load(run).plan_id
    try:
        return PlanStore(lake).resolve(run.partition("-")[0])
    except InputError as error:
        raise InputError(
            f"neither a run nor a plan in {lake.uri} begins with {run!r}", "`evenkeel runs` lists the runs"
        ) from error


def _match(stored: StoredPlan, entries: list[JournalEntry]) -> list[Deed]:
    kinds = {step.order: StepKind(step.kind) for step in stored.steps}
    foreign = [entry for entry in entries if entry.order not in kinds]
    if foreign:
        raise RefusedError(
            f"the journal's entry {foreign[0].order} is not of plan {stored.plan_id[:12]}",
            "look at the plan's journal; move single bundles back with `evenkeel move`",
        )
    return [Deed(kinds[entry.order], entry) for entry in entries]


def _require_none_open(lake: Lake, plan_id: str, journals: Journals) -> str | None:
    """Refuse beside an earlier way back that is still to finish; answers the latest that has ended, if any has.

    One that was never begun does not count.
    """
    ended_at: dict[str, int] = {}
    for earlier in _ways_back(lake, plan_id):
        entries = journals.entries(earlier)
        if not any(entry.state in _DONE for entry in entries):
            continue
        stored = PlanStore(lake).load(earlier)
        ended = {entry.order for entry in entries if entry.state in _ENDED}
        if all(step.order in ended for step in stored.steps):
            ended_at[earlier] = max(entry.at_ms for entry in entries)
        elif datetime.now(UTC) < stored.plan.expires_at:
            raise RefusedError(
                f"a rollback of plan {plan_id[:12]} has begun and not ended, by plan {earlier[:12]}",
                f"go on with `evenkeel apply {earlier[:12]}`",
            )
    return max(ended_at, key=ended_at.__getitem__, default=None)


def _find_undone(lake: Lake, plan_id: str, journals: Journals) -> set[str]:
    """The bundles that earlier ways back have brought home, unless that was undone in its turn.

    Should one be where the run put it all the same, another hand has brought it there since.
    """
    undone: set[str] = set()
    for earlier in _ways_back(lake, plan_id):
        settled = {entry.bundle for entry in journals.entries(earlier) if entry.state is StepState.SETTLED}
        undone |= settled - _find_undone(lake, earlier, journals)
    return undone


def _remember(lake: Lake, plan_id: str, way_back: str) -> None:
    made_at = format_time(datetime.now(UTC))
    path = f"plans/{plan_id}/rollbacks/{way_back}.json"
    if not lake.exists(path):
        lake.put_json(path, {"plan_id": plan_id, "rollback_plan_id": way_back, "made_at": made_at})


def _ways_back(lake: Lake, plan_id: str) -> list[str]:
    return [name.removesuffix(".json") for name in lake.names(f"plans/{plan_id}/rollbacks")]
