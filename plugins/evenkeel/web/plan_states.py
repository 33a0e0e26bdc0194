"""What has become of a plan, from what lies beside it in the lake and what ZooKeeper says.

    unchecked ──▶ planned ──▶ approved ──▶ running ──▶ applied
        │            ├──▶ rejected             └─────▶ stopped, may be resumed
        └──▶ refused └──▶ expired                      any ──▶ revoked

The first state that applies, from the last line of `find_state` backwards, is the one that is shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import lru_cache
from typing import Any

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.approval import Approval, Refusal
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import InputError
from evenkeel.model.plan import Plan
from evenkeel.model.run import RunRecord, RunState
from evenkeel.model.verdict import Verdict
from evenkeel.web.live_state import LiveState


class PlanState(StrEnum):
    """The state of a plan as the page names it."""

    UNCHECKED = "unchecked"
    PLANNED = "planned"
    REFUSED = "refused by gate"
    APPROVED = "approved"
    REJECTED = "rejected"
    RUNNING = "running"
    STOPPED = "stopped"
    APPLIED = "applied"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class PlanRecords:
    """What lies beside a plan: verdict, approval, refusals, revocation and runs. What cannot be read is named."""

    verdict: Verdict | None
    approval: Approval | None
    refusals: tuple[Refusal, ...]
    revocation: str | None
    runs: tuple[RunRecord, ...]
    unreadable: tuple[str, ...]


def read_records(lake: Lake, plan_id: str, run_names: Sequence[str] | None = None) -> PlanRecords:
    """Everything that was recorded about a plan; `run_names` saves listing the runs for each of many plans."""
    plans, unreadable = PlanStore(lake), []
    found: dict[str, Any] = {"verdict": None, "approval": None}
    for name, read in (("verdict", plans.read_verdict), ("approval", plans.read_approval)):
        try:
            found[name] = read(plan_id)
        except InputError as error:
            unreadable.append(str(error))
    runs = []
    for run_id in RunStore(lake).ids() if run_names is None else run_names:
        if run_id.startswith(f"{short_id(plan_id)}-"):
            try:
                runs.append(load_run(lake.uri, run_id))
            except InputError as error:
                unreadable.append(str(error))
    own = tuple(sorted((run for run in runs if run.plan_id == plan_id), key=lambda run: (run.started_at, run.epoch)))
    return PlanRecords(
        found["verdict"],
        found["approval"],
        tuple(plans.read_refusals(plan_id)),
        plans.find_revocation(plan_id),
        own,
        tuple(unreadable),
    )


@lru_cache(maxsize=64)
def load_run(lake_uri: str, run_id: str) -> RunRecord:
    """The record of a run, which never changes once it is written."""
    return RunStore(Lake(lake_uri)).load(run_id)


def find_state(plan: Plan, plan_id: str, records: PlanRecords, live: LiveState, now: datetime) -> PlanState:
    """The state of a plan at a moment."""
    real_runs = [run for run in records.runs if not run.dry_run]
    candidates = [
        (PlanState.PLANNED, records.verdict is not None),
        (PlanState.APPROVED, records.approval is not None),
        (PlanState.EXPIRED, now >= plan.expires_at),
        (PlanState.REJECTED, bool(records.refusals) and records.approval is None),
        (PlanState.REFUSED, records.verdict is not None and not records.verdict.passed),
        (PlanState.REVOKED, records.revocation is not None),
        (PlanState.STOPPED, bool(real_runs)),
        (PlanState.APPLIED, any(run.state is RunState.DONE for run in real_runs)),
        (PlanState.RUNNING, live.writer is not None and live.writer.plan_id == plan_id),
    ]
    return next((state for state, applies in reversed(candidates) if applies), PlanState.UNCHECKED)
