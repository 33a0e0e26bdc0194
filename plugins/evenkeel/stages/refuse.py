"""Record a no to a plan, and find the last one: whoever decides about the next plan should know it."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import islice

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.approval import Answer, Person, Refusal
from evenkeel.model.canonical import short_id
from evenkeel.model.timestamps import format_time, parse_time
from evenkeel.stages.request_check import find_last_run_end

# Older plans have nothing to say about the present one.
MOST_PLANS_READ = 20


def refuse_plan(lake: Lake, plan: str, answer: Answer, person: Person, how: str, reason: str = "") -> Refusal:
    """Record that somebody rejected a plan, or that nobody answered; a plan may be refused more than once."""
    stored = PlanStore(lake).read_plan(PlanStore(lake).resolve(plan))
    refusal = Refusal(
        plan_id=stored.plan_id,
        cluster=stored.cluster,
        answer=answer,
        answered_by=person.name,
        account=person.account,
        host=person.host,
        answered_at=format_time(datetime.now(UTC)),
        how=how,
        reason=reason,
    )
    PlanStore(lake).write_refusal(refusal)
    return refusal


def describe_last_refusal(lake: Lake, cluster: str) -> str | None:
    """The last no to a plan of a cluster, in words, unless something was applied since; None where there is none."""
    plans = PlanStore(lake)
    recent = islice(plans.newest_first(cluster), MOST_PLANS_READ)
    refusals = [refusal for plan_id in recent for refusal in plans.read_refusals(plan_id)]
    if not refusals:
        return None
    last = max(refusals, key=lambda refusal: refusal.answered_at)
    applied_at = find_last_run_end(lake, cluster)
    if applied_at is not None and parse_time(last.answered_at) <= applied_at:
        return None
    return f"the question before this one, about plan {short_id(last.plan_id)}: {last.describe()}"
