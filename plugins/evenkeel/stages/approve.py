"""Approve exactly one plan."""

from __future__ import annotations

from datetime import UTC, datetime

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore
from evenkeel.execution.preflight import require_in_time
from evenkeel.model.approval import Approval
from evenkeel.model.errors import RefusedError
from evenkeel.model.moments import format_time


def approve_plan(lake: Lake, plan: str, approved_by: str, how: str) -> Approval:
    """Bind a person's word to a plan id; the first approval stands, a blocked or expired plan is refused."""
    plans = PlanStore(lake)
    stored = plans.load(plan)
    existing = plans.read_approval(stored.plan_id)
    if existing is not None:
        return existing
    now = datetime.now(UTC)
    require_in_time(stored.plan, stored.plan_id, now)
    verdict = plans.read_verdict(stored.plan_id)
    if verdict is None:
        raise RefusedError(
            f"plan {stored.plan_id[:12]} has not passed the gate", f"run `evenkeel check {stored.plan_id[:12]}`"
        )
    verdict.require_passed()
    approval = Approval(stored.plan_id, approved_by, format_time(now), how)
    plans.write_approval(approval)
    return approval
