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
from evenkeel.planning.inverse import Deed, plan_way_back
from evenkeel.stages.manual import look_at, store_plan

_DONE = (StepState.SETTLED, StepState.APPLIED, StepState.INTENDED, StepState.FAILED)
_ENDED = (StepState.SETTLED, StepState.SKIPPED)


def plan_rollback(lake: Lake, run: str, connection: ClusterConnection, settings: Settings) -> StoredPlan:
    """Store the plan that undoes what the journal says was done for a run's plan; refused where that was done already.

    All runs of one plan are one piece of work, so all that its journal holds goes back, whichever run did it.
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
        _require_first_time(lake, stored.plan_id, journals)
    deeds = _match(stored, entries)
    if not any(deed.entry.state in _DONE for deed in deeds):
        raise RefusedError(
            f"the journal of plan {stored.plan_id[:12]} has no step that was done",
            "there is nothing to undo; `evenkeel runs` lists the runs",
        )
    way_back = store_plan(lake, plan_way_back(look_at(lake, connection, settings), stored.plan_id, deeds))
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


def _require_first_time(lake: Lake, plan_id: str, journals: Journals) -> None:
    """Refuse what an earlier way back has done, or is still to finish; one that was never begun does not count."""
    for earlier in _ways_back(lake, plan_id):
        entries = journals.entries(earlier)
        if not any(entry.state in _DONE for entry in entries):
            continue
        stored = PlanStore(lake).load(earlier)
        ended = {entry.order for entry in entries if entry.state in _ENDED}
        if all(step.order in ended for step in stored.steps):
            raise RefusedError(
                f"plan {plan_id[:12]} was rolled back already, by plan {earlier[:12]}",
                f"to undo the rollback, roll back {earlier[:12]}",
            )
        if datetime.now(UTC) < stored.plan.expires_at:
            raise RefusedError(
                f"a rollback of plan {plan_id[:12]} has begun and not ended, by plan {earlier[:12]}",
                f"go on with `evenkeel apply {earlier[:12]}`",
            )


def _remember(lake: Lake, plan_id: str, way_back: str) -> None:
    made_at = format_time(datetime.now(UTC))
    path = f"plans/{plan_id}/rollbacks/{way_back}.json"
    if not lake.exists(path):
        lake.put_json(path, {"plan_id": plan_id, "rollback_plan_id": way_back, "made_at": made_at})


def _ways_back(lake: Lake, plan_id: str) -> list[str]:
    return [name.removesuffix(".json") for name in lake.names(f"plans/{plan_id}/rollbacks")]
