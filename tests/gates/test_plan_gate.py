"""What blocks a plan, what only warns, and in which words."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from datetime import timedelta

import pytest

from evenkeel.gates.plan_gate import JudgedPlan, judge_plan
from evenkeel.model.errors import InputError
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import PolicyDocument
from evenkeel.model.verdict import Severity, Verdict
from evenkeel.planning.manual.requests import ManualRequest, build_manual_plan
from support import small_cluster, small_plan
from support.by_hand import known, pinned_to
from support.small_cluster import B01, B02, B03, MEGABYTE, TAKEN_AT
from support.small_plan import FIRST, SETTINGS, step

SECOND, THIRD = "shop/orders/0x40000000_0x80000000", "shop/orders/0x80000000_0xc0000000"
FOURTH = "shop/orders/0xc0000000_0xffffffff"


def judge(
    plan: JudgedPlan,
    policy_rows: Sequence[PolicyDocument] = (),
    settings: Settings = SETTINGS,
) -> Verdict:
    return judge_plan(plan, small_cluster.judged(settings, policy_rows=policy_rows), settings)


def found(verdict: Verdict, severity: Severity) -> dict[str, str]:
    """Failed checks of a severity, by name."""
    return {check.name: check.detail for check in verdict.checks if not check.passed and check.severity == severity}


def test_good_plan_passes_without_a_warning() -> None:
    plan = small_plan.stored()
    verdict = judge(plan)
    assert [check.detail for check in verdict.checks if not check.passed] == []
    assert verdict.subject == f"plan {plan.plan_id[:12]}"
    assert {check.suite for check in verdict.checks} == {"plan", "plan_violations", "plan_steps", "plan_brokers"}
    assert Verdict.from_json(json.loads(json.dumps(verdict.to_json())), "here") == verdict


def test_faults_of_steps_block() -> None:
    isolation = {
        "pinned": {
            "namespaces": ["shop/orders"],
            "primary": ["b01.fleet", "b02.fleet"],
            "secondary": [],
            "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1"}},
        }
    }
    steps: list[Step] = [
        step(),
        step(order=1, bundle=SECOND, source=B02, source_incarnation=102, destination=B01, destination_incarnation=101),
        step(order=2, bundle="shop/orders/0x10000000_0x20000000", destination=B02, destination_incarnation=102),
        step(order=3, wave=1, kind="split", bundle=THIRD),
        step(order=4, wave=1, kind="split", bundle=FOURTH, source=B02, source_incarnation=102),
    ]
    settings = dataclasses.replace(SETTINGS, max_steps=4, max_number_of_bundles_to_split_per_cycle=1)
    verdict = judge(small_plan.stored(steps), [PolicyDocument("isolation", "", json.dumps(isolation))], settings)
    details = found(verdict, Severity.CRITICAL)
    assert details["steps_start_at_the_owner"] == (
        f"step 1: bundle {SECOND} is owned by {B01}, the plan says {B02}; "
        "step 2: bundle shop/orders/0x10000000_0x20000000 is not in the snapshot"
    )
    assert details["budgets_are_kept"] == (
        "wave 0 has 3 steps, the budget is 1; the plan has 2 splits, the budget is 1; "
        "the plan has 5 steps, the budget is 4"
    )
    assert details["hard_rules_hold"].startswith(
        "the plan takes 5 steps, where max_steps allows 4; wave 0 has 3 steps, but at most 1 are allowed; "
        "2 splits, but at most 1 are allowed in a plan (and "
    )


def test_plan_that_splits_a_bundle_and_moves_its_child_passes() -> None:
    # the lower half of the first bundle goes to b03: 60 → 50 MB/s, 10 → 20 MB/s
    half = small_plan.MOVED_MB // 2
    nothing = {"throughput_in_bytes_per_s": 0, "throughput_out_bytes_per_s": 0, "cpu_millipercent": 0, "topics": 0}
    split = step(kind="split", destination=None, destination_incarnation=None, split_boundary=0x20000000, **nothing)
    child = step(
        order=1,
        wave=1,
        bundle="shop/orders/0x00000000_0x20000000",
        expected_version_id=1,
        throughput_in_bytes_per_s=half * MEGABYTE,
        throughput_out_bytes_per_s=half * MEGABYTE,
        cpu_millipercent=half * small_plan.CPU_PER_MB,
        topics=5,
        sessions=5,
    )
    rows = small_plan.balances(after_mb=(50, 20, 20), band_mb=50)
    verdict = judge(small_plan.stored([split, child], rows))
    assert [check.detail for check in verdict.checks if not check.passed] == []
    # the rest of the namespace is looked at too: with 4 bundles it is full
    full = dataclasses.replace(SETTINGS, namespace_maximum_bundles=4)
    details = found(judge(small_plan.stored([split, child], rows), settings=full), Severity.CRITICAL)
    assert details == {"hard_rules_hold": "shop/orders would have 5 bundles, but at most 4 are allowed"}
    # what the child carries is looked up in the snapshot's topics, not believed
    lying = dataclasses.replace(child, sessions=1)
    details = found(judge(small_plan.stored([split, lying], rows)), Severity.CRITICAL)
    assert f"{child.bundle} does not carry what its parent's cut gives it" in details["hard_rules_hold"]


def test_faults_of_the_balance_block_or_warn() -> None:
    rows = small_plan.balances(after_mb=(40, 20, 70))
    rows[1] = dataclasses.replace(rows[1], used_before=61 * MEGABYTE)
    plan = small_plan.stored(rows=rows, expires_at=TAKEN_AT - timedelta(seconds=1), truncated=True)
    verdict = judge(plan, settings=dataclasses.replace(SETTINGS, broker_overloaded_threshold_percentage=50.0))
    assert found(verdict, Severity.CRITICAL) == {
        "plan_expires_after_its_snapshot": (
            "the plan expires at 2026-01-31T02:59:59.000Z, its snapshot is of 2026-01-31T03:00:00.000Z"
        ),
        "balance_agrees_with_steps": (
            f"bandwidth in of broker {B01} is 40,000,000 after the plan by its table, 41,000,000 by its steps; "
            f"bandwidth in of broker {B03} is 70,000,000 after the plan by its table, 30,000,000 by its steps; "
            f"bandwidth out of broker {B03} is 70,000,000 after the plan by its table, 30,000,000 by its steps "
            "(and 1 more)"
        ),
        "plan_is_no_worse_than_before": (
            f"bandwidth out of broker {B03} would be at 56.0 % of its limit, the highest before was 48.0 %; "
            f"bandwidth in of broker {B03} would be at 56.0 % of its limit, the highest before was 48.8 %; "
            f"cpu of broker {B03} would be at 17.5 % of its limit, the highest before was 15.0 %"
        ),
    }
    warnings = found(verdict, Severity.WARNING)
    assert warnings["plan_is_complete"] == "a deadline cut the search for the plan short, so a better one may exist"
    assert warnings["balance_starts_at_the_snapshot"] == (
        f"bandwidth in of broker {B01} is 61,000,000 before the plan by its table, 60,000,000 by the snapshot"
    )
    assert warnings["brokers_end_below_the_overload_line"].startswith(
        f"bandwidth in of broker {B03} would be at 56.0 % of its limit, the overload line is 50.0 %"
    )
    assert warnings["brokers_end_inside_the_band"].startswith(
        f"bandwidth in of broker {B03} would be at 56.0 % of its limit, the band ends at 33.6 %"
    )


def test_empty_plan_is_worth_a_word_and_names_what_stays_outside_the_band() -> None:
    rows = small_plan.balances(after_mb=(60, 20, 10), band_mb=32)
    verdict = judge(small_plan.stored([], rows))
    assert verdict.passed
    assert found(verdict, Severity.INFO) == {"plan_has_steps": "the plan has no steps"}
    assert list(found(verdict, Severity.WARNING)) == ["brokers_end_inside_the_band"]
    assert {check.name for check in verdict.warnings} == {"plan_has_steps", "brokers_end_inside_the_band"}


def test_plan_of_an_unknown_snapshot_is_refused() -> None:
    with pytest.raises(InputError, match="'yesterday' is not a snapshot's id: plan again"):
        judge(small_plan.stored(snapshot_id="yesterday"))


def test_same_plan_gets_the_same_verdict() -> None:
    plan = small_plan.stored([step(bundle=name, order=n) for n, name in enumerate((FIRST, SECOND, THIRD))])
    assert judge(plan) == judge(plan)


@pytest.mark.parametrize("bandwidth_model", ["bundles", "scaled"])
def test_plan_by_hand_may_make_the_balance_worse_but_says_so(bandwidth_model: str) -> None:
    settings = dataclasses.replace(SETTINGS, bandwidth_model=bandwidth_model)
    measured = small_cluster.change(small_cluster.brokers(), "broker_id", B02, bandwidth_in_usage_kbps=200_000.0)
    wish = ManualRequest(StepKind.TRANSFER, FOURTH, "ada", destination=B01)
    made = build_manual_plan(known(brokers=measured, settings=settings), wish)
    plan = small_plan.SmallPlan(made.plan, made.steps, made.rejections, made.brokers)
    snapshot = small_cluster.judged(settings, measured)
    verdict = judge_plan(plan, snapshot, settings)
    assert verdict.passed, verdict.blocking
    assert set(found(verdict, Severity.WARNING)) == {"plan_is_no_worse_than_before"}, "its load is the snapshot's"
    # the same steps by a planner are a bug
    certified = dataclasses.replace(plan, plan=dataclasses.replace(made.plan, strategy="certified"))
    blocked = found(judge_plan(certified, snapshot, settings), Severity.CRITICAL)
    assert set(blocked) == {"plan_is_no_worse_than_before", "hard_rules_hold"}


def test_plan_by_hand_may_not_break_a_hard_rule() -> None:
    made = build_manual_plan(known(settings=SETTINGS), ManualRequest(StepKind.TRANSFER, FOURTH, "ada", destination=B03))
    plan = small_plan.SmallPlan(made.plan, made.steps, made.rejections, made.brokers)
    details = found(judge(plan, [pinned_to("b01.fleet", "b02.fleet")]), Severity.CRITICAL)
    assert details == {"hard_rules_hold": f"step 0: {B03} may not own shop/orders by isolation policy pinned"}
