"""Verdicts and approvals for plans that tests make by hand, and applying them where nobody has to sign."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial

from evenkeel import __version__
from evenkeel.adapters.approval_policy import ApprovalPolicy
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.gates.expected_checks import expect_of_plan
from evenkeel.model.approval import Approval, Person
from evenkeel.model.timestamps import format_time
from evenkeel.model.verdict import Check, Gate, Subject, Verdict
from evenkeel.stages.apply import apply_plan as apply_by_policy

UNSIGNED = ApprovalPolicy.unsigned()
ADA = Person("ada", "OS user ada", "test-host")

apply_plan = partial(apply_by_policy, approvals=UNSIGNED)
"""Apply a plan whose approval nobody had to sign."""


def make_verdict(gate: Gate, kind: Subject, subject_id: str, is_passed: bool = True) -> Verdict:
    """A verdict with every check that a gate makes."""
    checks = (
        Check(each.suite, each.name, each.severity, is_passed, "a check", "the test says so") for each in gate.checks
    )
    return Verdict(kind, subject_id, gate.suites, tuple(checks), __version__)


def judge(lake: Lake, plan_id: str, is_passed: bool = True) -> Verdict:
    """Store a verdict on a plan without looking at it."""
    plans = PlanStore(lake)
    gate = expect_of_plan(plans.read_plan(plan_id).strategy)
    verdict = make_verdict(gate, Subject.PLAN, plan_id, is_passed)
    plans.write_verdict(plan_id, verdict)
    return verdict


def make_approval(lake: Lake, plan_id: str) -> Approval:
    """An unsigned approval of a plan by its stored verdict."""
    plans = PlanStore(lake)
    verdict = plans.read_verdict(plan_id)
    return Approval(
        plan_id=plan_id,
        cluster=plans.read_plan(plan_id).cluster,
        gate_sha256="" if verdict is None else verdict.sha256,
        approved_by=ADA.name,
        account=ADA.account,
        host=ADA.host,
        approved_at=format_time(datetime.now(UTC)),
        how="test",
    )


def approve(lake: Lake, plan_id: str) -> Approval:
    """Store an unsigned approval of a plan."""
    approval = make_approval(lake, plan_id)
    PlanStore(lake).write_approval(approval)
    return approval
