"""Approve exactly one plan."""

from __future__ import annotations

from datetime import UTC, datetime

from evenkeel.adapters.approval_policy import ApprovalPolicy
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.execution.preflight import require_applicable, require_approved, require_not_revoked
from evenkeel.gates.expected_checks import expect_of_plan
from evenkeel.model.approval import Approval, Person
from evenkeel.model.timestamps import format_time


def approve_plan(lake: Lake, plan: str, person: Person, how: str, approvals: ApprovalPolicy) -> Approval:
    """Bind a person's word to a plan id, signed where the policy asks for it.

    The first approval stands. A plan that is blocked or expired is refused, and so is an approval that would not count.
    """
    plans = PlanStore(lake)
    stored = plans.load(plan)
    plan_id, cluster, now = stored.plan_id, stored.plan.cluster, datetime.now(UTC)
    gate, found = expect_of_plan(stored.plan.strategy), plans.read_verdict(plan_id)
    existing = plans.read_approval(plan_id)
    require_not_revoked(plan_id, plans.find_revocation(plan_id))
    verdict = require_applicable(stored.plan, plan_id, found, gate, cluster, now)
    if existing is not None:
        return require_approved(stored.plan, plan_id, verdict, existing, approvals)
    approvals.require_can_approve(cluster)
    approval = approvals.seal(
        Approval(
            plan_id=plan_id,
            cluster=cluster,
            gate_sha256=verdict.sha256,
            approved_by=person.name,
            account=person.account,
            host=person.host,
            approved_at=format_time(now),
            how=how,
        )
    )
    plans.write_approval(approval)
    return approval
