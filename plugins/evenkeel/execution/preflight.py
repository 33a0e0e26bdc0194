"""What must hold before the first step: the plan is for this cluster, checked, approved and not expired."""

from __future__ import annotations

from datetime import datetime

from evenkeel.model.approval import Approval
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import RefusedError
from evenkeel.model.plan import Plan
from evenkeel.model.timestamps import format_time, parse_time
from evenkeel.model.verdict import Gate, Subject, Verdict
from evenkeel.ports import ApprovalJudge


def require_applicable(
    plan: Plan, plan_id: str, verdict: Verdict | None, gate: Gate, cluster: str, now: datetime
) -> Verdict:
    """Refuse a plan that is for another cluster, expired, unchecked or blocked; returns the verdict that it passed."""
    name = f"plan {short_id(plan_id)}"
    if plan.cluster != cluster:
        raise RefusedError(f"{name} is for cluster {plan.cluster!r}, not {cluster!r}", "give the plan's own cluster")
    require_in_time(plan, plan_id, now)
    if verdict is None:
        raise RefusedError(f"{name} has not passed the gate", f"run `evenkeel check {short_id(plan_id)}`")
    verdict.require_from(gate, Subject.PLAN, plan_id)
    verdict.require_passed()
    return verdict


def require_approved(
    plan: Plan, plan_id: str, verdict: Verdict, approval: Approval | None, approvals: ApprovalJudge
) -> Approval:
    """Refuse a plan without an approval that counts, for exactly this plan and this verdict; returns the approval."""
    name = f"plan {short_id(plan_id)}"
    if approval is None:
        raise RefusedError(f"{name} is not approved", f"have someone run `evenkeel approve {short_id(plan_id)}`")
    if (approval.plan_id, approval.cluster) != (plan_id, plan.cluster):
        raise RefusedError(
            f"the approval is for plan {short_id(approval.plan_id)} of cluster {approval.cluster!r}, not for {name} "
            f"of {plan.cluster!r}",
            "approve this plan",
        )
    approvals.require_counts(approval)
    if approval.gate_sha256 != verdict.sha256:
        raise RefusedError(f"the verdict on {name} is not the one that was approved", "plan again")
    return approval


def require_not_revoked(plan_id: str, revoked: str | None) -> None:
    """Refuse a plan that somebody has taken back; `revoked` says who."""
    if revoked is not None:
        raise RefusedError(f"plan {short_id(plan_id)} was {revoked}", "take a new snapshot and plan again")


def require_in_time(plan: Plan, plan_id: str, now: datetime) -> None:
    """Refuse a plan that has expired."""
    if now >= plan.expires_at:
        raise RefusedError(
            f"plan {short_id(plan_id)} expired at {format_time(plan.expires_at)}", "take a new snapshot and plan again"
        )


def find_window_end(plan: Plan, until: datetime | None) -> datetime | None:
    """The moment after which no step may begin: the plan's own window, or the caller's limit, whichever comes first."""
    ends = [until] if until is not None else []
    planned = None if plan.window is None else plan.window.get("ends_at")
    if planned is not None:
        ends.append(parse_time(str(planned)))
    return min(ends, default=None)
