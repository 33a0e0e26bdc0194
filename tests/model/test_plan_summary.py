"""A plan in sentences: the same for the command line, the approval and the report."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evenkeel.model.figures import BrokenRules, PoolLimit, StepCounts, Violations
from evenkeel.model.plan import MANUAL, BrokerBalance, Rejection
from evenkeel.model.plan_summary import BUDGET_SETTINGS, format_client_seconds, format_rate, summarise
from evenkeel.planning.problem.budgets import PLAN_BUDGETS, TENANT_BUDGETS, WAVE_BUDGETS
from support import small_plan
from support.small_plan import B01, B03, POOL, balances

INSIDE = replace(POOL, reaches_band=True, limited_by=PoolLimit.NOTHING)


def bounded(moves: int, bound: int, **changes: Any) -> Any:
    made = small_plan.plan(step_counts=StepCounts(transfers=moves), **({"pools": (INSIDE,)} | changes))
    return replace(made, bounds=replace(made.bounds, moves=bound))


def refused_by(*rules: str) -> list[Rejection]:
    return [Rejection("", "plan", None, None, rule, "leaves out moves") for rule in rules]


@pytest.mark.parametrize(
    ("plan", "rules", "sentence"),
    [
        (bounded(7, 7), (), "7 moves: the provable minimum."),
        (bounded(1, 1), (), "1 move: the provable minimum."),
        (bounded(1_204, 1_100), (), "1,204 moves; any plan needs at least 1,100."),
        (bounded(57, 130, pools=(POOL,)), ("step-budget",), "57 of at least 130 moves; stopped by max_steps."),
        (
            bounded(57, 130, pools=(POOL,)),
            ("step-budget", "tenant-bytes-budget"),
            "57 of at least 130 moves; stopped by max_steps and tenant_max_moved_bytes_per_s.",
        ),
        (bounded(9, 7, pools=(POOL,)), ("step-budget",), "9 moves; stopped by max_steps."),
        (bounded(5, 7, pools=(POOL,)), (), "5 of at least 7 moves."),
        (bounded(7, 7, pools=(POOL,)), (), "7 moves."),
        (bounded(2, 0), (), "2 moves."),
        (small_plan.plan(strategy=MANUAL, bounds=None), (), "1 step, chosen by hand."),
        (bounded(0, 0), (), "No steps."),
    ],
)
def test_moves_are_compared_with_the_fewest_that_any_plan_needs(plan: Any, rules: Any, sentence: str) -> None:
    summary = summarise(plan, refused_by(*rules), balances())
    assert summary.moves_sentence == summary.sentences[0] == sentence


def test_plan_without_steps_says_why() -> None:
    why = Rejection("", "plan", None, None, "nothing-to-do", "every broker is inside its band, and no rule is broken")
    summary = summarise(bounded(0, 0), [why], balances())
    assert summary.headline == "nothing to change"
    assert summary.moves_sentence == f"Nothing to do: {why.detail}."


def test_all_sentences_of_a_plan_that_repairs_splits_and_stays_outside_the_band() -> None:
    made = small_plan.plan(
        step_counts=StepCounts(transfers=1, splits=2),
        violations=Violations(BrokenRules(3, 1, 0, 0), BrokenRules(1, 0, 0, 0)),
        pools=(POOL, INSIDE, replace(POOL, limited_by=PoolLimit.POLICIES)),
        truncated=True,
    )
    assert summarise(made, [], balances()).sentences == (
        "1 move.",
        "2 bundles are split.",
        "b01.fleet:8080, the busiest broker, goes from 48.0 % to 32.0 % of its bandwidth in limit.",
        "Disruption: 7.0 client-seconds; 10 sessions reconnect, 40.0 MB/s of traffic moves.",
        "Bundles on brokers that they must leave: 4 before, 1 after.",
        "2 of 3 pools stay outside the band: a bundle is too big for any broker (1); "
        "policies allow no other broker (1).",
        "The search hit its deadline; this is the best plan it found.",
    )


def peak_sentence(*rows: tuple[str, int, int], **settings: Any) -> str:
    """The sentence about the busiest broker, for brokers with this cpu in percent before and after."""
    table = [BrokerBalance(name, "p", "cpu", 1_000, 10 * before, 10 * after, 900) for name, before, after in rows]
    made = small_plan.plan()
    return summarise(replace(made, settings={**made.settings, **settings}), [], table).sentences[1]


def test_headline_speaks_of_one_broker_and_names_the_other() -> None:
    assert peak_sentence((B01, 90, 20), (B03, 10, 45)) == (
        f"{B01}, the busiest broker, goes from 90.0 % to 20.0 % of its CPU limit; afterwards {B03} is the busiest, "
        "at 45.0 %."
    )
    assert peak_sentence((B01, 90, 50), (B03, 10, 45)) == (
        f"{B01}, the busiest broker, goes from 90.0 % to 50.0 % of its CPU limit."
    )
    assert peak_sentence((B01, 60, 60), (B03, 50, 30)) == (
        f"{B01} is the busiest broker and stays at 60.0 % of its CPU limit."
    )


def test_busiest_broker_that_stays_is_explained_and_the_one_that_is_relieved_is_named() -> None:
    lone = replace(POOL, pool=B01, brokers=1, policies=("vip",))
    table = [
        BrokerBalance(B01, B01, "cpu", 1_000, 660, 660, 700),
        BrokerBalance(B03, B03, "cpu", 1_000, 500, 300, 350),
    ]
    assert summarise(small_plan.plan(pools=(lone,)), [], table).sentences[1:3] == (
        f"{B01} is the busiest broker and stays at 66.0 % of its CPU limit, for it is in a pool of its own "
        "(isolation policy vip).",
        f"{B03}, the busiest broker that the plan relieves, goes from 50.0 % to 30.0 % of its CPU limit.",
    )


def test_nearly_idle_resources_make_no_headline() -> None:
    assert peak_sentence((B01, 4, 2), (B03, 0, 2), min_utilisation=0.05) == (
        "The cluster is nearly idle: no broker uses more than 5.0 % of a limit."
    )
    (peak,) = summarise(
        replace(small_plan.plan(), settings={"min_utilisation": 0.05}),
        [],
        [BrokerBalance(B01, "p", "cpu", 1_000, 40, 20, 50)],
    ).peaks
    assert peak.is_idle


def test_every_budget_of_the_planner_has_its_setting() -> None:
    rules = (*PLAN_BUDGETS, *TENANT_BUDGETS, *WAVE_BUDGETS)
    assert {rule.name: rule.setting for rule in rules} == BUDGET_SETTINGS


@pytest.mark.parametrize(
    ("rate", "shown"),
    [(0, "0 B/s"), (999, "999 B/s"), (40_000_000, "40.0 MB/s"), (14_712_345_678, "14.7 GB/s"), (123e6, "123 MB/s")],
)
def test_rates_are_rounded_to_three_digits(rate: int, shown: str) -> None:
    assert format_rate(rate) == shown


@pytest.mark.parametrize(("seconds", "shown"), [(0.0, "0"), (0.665, "0.7"), (25.615, "26"), (12_345.6, "12,346")])
def test_client_seconds_are_rounded_to_what_matters(seconds: float, shown: str) -> None:
    assert format_client_seconds(seconds) == f"{shown} client-seconds"
