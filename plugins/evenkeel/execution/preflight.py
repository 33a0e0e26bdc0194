"""What must hold before the first step: this plan, judged, approved, in time, for this cluster."""

from __future__ import annotations

from datetime import datetime

from evenkeel.model.approval import Approval
from evenkeel.model.errors import RefusedError
from evenkeel.model.moments import format_time, parse_time
from evenkeel.model.plan import Plan
from evenkeel.model.verdict import Verdict


def require_applicable(
    plan: Plan, plan_id: str, verdict: Verdict | None, approval: Approval | None, cluster: str, now: datetime
) -> None:
    """Refuse a plan that is for another cluster, unjudged, blocked, unapproved or expired."""
    name = f"plan {plan_id[:12]}"
    if plan.cluster != cluster:
        raise RefusedError(f"{name} is for cluster {plan.cluster!r}, not {cluster!r}", "name the plan's own cluster")
    require_in_time(plan, plan_id, now)
    if verdict is None:
        raise RefusedError(f"{name} has not passed the gate", f"run `evenkeel check {plan_id[:12]}`")
    verdict.require_passed()
    if approval is None:
        raise RefusedError(f"{name} is not approved", f"have someone run `evenkeel approve {plan_id[:12]}`")
    if approval.plan_id != plan_id:
        raise RefusedError(f"the approval is for plan {approval.plan_id[:12]}, not {plan_id[:12]}", "approve this plan")


def require_in_time(plan: Plan, plan_id: str, now: datetime) -> None:
    """Refuse a plan whose time is over."""
    if now >= plan.expires_at:
        raise RefusedError(
            f"plan {plan_id[:12]} expired at {format_time(plan.expires_at)}", "take a new snapshot and plan again"
        )


def find_window_end(plan: Plan, until: datetime | None) -> datetime | None:
    """The moment after which no step may begin: the plan's own window, or the caller's word, whichever ends first."""
    ends = [until] if until is not None else []
    planned = None if plan.window is None else plan.window.get("ends_at")
    if planned is not None:
        ends.append(parse_time(str(planned)))
    return min(ends, default=None)
