"""Budgets are hard, go to what is most urgent, and say what they leave out."""

from __future__ import annotations

import random
from collections import Counter, defaultdict

import pytest

from evenkeel.model.plan import Rejection, Step
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import PlannedCluster, assemble
from evenkeel.planning.cluster.selection import keep_within_budgets, select
from evenkeel.planning.problem.budgets import PLAN_BUDGETS, TENANT_BUDGETS, WAVE_BUDGETS
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import context, random_cluster
from support.clusters import plan as plan_cluster
from support.moves import broker, by_name, move, pool_plan

# Each has 10 sessions, 1 client-second and 20 bytes/s.
THREE = [move("a>b", bundle=f"{tenant}/ns/0x0") for tenant in ("red", "blue", "green")]


def kept(moves: list, **budgets: float | None) -> list:  # type: ignore[type-arg]
    return keep_within_budgets(moves, Settings(**budgets))[0]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("budget", "rule"),
    [
        ({"max_steps": 2}, "step-budget"),
        ({"max_moved_bytes_per_s": 59.9}, "bytes-budget"),
        ({"max_moved_sessions": 29}, "sessions-budget"),
        ({"max_client_seconds": 2.999}, "disruption-budget"),
    ],
)
def test_plan_takes_what_fits_and_no_more(budget: dict[str, float], rule: str) -> None:
    moves, refused = keep_within_budgets(THREE, Settings(**budget))  # type: ignore[arg-type]
    assert moves == THREE[:2]
    assert refused == [(THREE[2], rule)]


def test_budget_that_is_just_enough_is_enough() -> None:
    assert kept(THREE, max_steps=3, max_moved_bytes_per_s=60, max_moved_sessions=30, max_client_seconds=3) == THREE


def test_budget_that_is_not_set_is_no_limit() -> None:
    assert kept(THREE, max_moved_sessions=None) == THREE


def test_move_that_does_not_fit_lets_cheaper_ones_pass() -> None:
    dear, cheap = move("a>b", sessions=50), move("a>b", sessions=4)
    moves, refused = keep_within_budgets([*THREE, dear, cheap], Settings(max_moved_sessions=35))
    assert moves == [*THREE, cheap]
    assert refused == [(dear, "sessions-budget")]


@pytest.mark.parametrize(
    ("budget", "rule"),
    [
        ({"tenant_max_steps": 1}, "tenant-step-budget"),
        ({"tenant_max_moved_bytes_per_s": 20}, "tenant-bytes-budget"),
        ({"tenant_max_sessions": 10}, "tenant-sessions-budget"),
        ({"tenant_max_client_seconds": 1.5}, "tenant-disruption-budget"),
    ],
)
def test_each_tenant_has_a_budget_of_its_own(budget: dict[str, float], rule: str) -> None:
    second = move("a>b", bundle="red/ns/0x1")
    moves, refused = keep_within_budgets([*THREE, second], Settings(**budget))  # type: ignore[arg-type]
    assert moves == THREE
    assert refused == [(second, rule)]


@pytest.mark.parametrize(
    ("budget", "rule"),
    [
        ({"wave_max_sessions": 49}, "wave-sessions-budget"),
        ({"wave_max_client_seconds": 6.9}, "wave-disruption-budget"),
        ({"wave_max_moved_bytes_per_s": 39}, "wave-bytes-budget"),
    ],
)
def test_bundle_that_alone_exceeds_a_wave_is_left_out(budget: dict[str, float], rule: str) -> None:
    large = move("a>b", 20, sessions=50, client_ms=7_000)
    moves, refused = keep_within_budgets([large, *THREE], Settings(**budget))  # type: ignore[arg-type]
    assert moves == THREE
    assert refused == [(large, rule)]


def test_budget_goes_to_repairs_then_to_overloaded_brokers_then_to_the_worst() -> None:
    brokers = by_name(broker("a", 700), broker("b", 600), broker("full", 900), broker("c", 100))
    balance = [move("b>c", 90), move("a>c", 90)]
    relief, repair = move("full>c", 90, is_relief=True), move("b>c", 1, is_repair=True)
    for budget, expected in ((1, [repair]), (2, [repair, relief]), (3, [repair, relief, balance[1]])):
        selection = select([*balance, relief, repair], brokers, {}, Settings(max_steps=budget, canary_steps=3))
        assert {one.move.bundle for one in selection.moves} == {one.move.bundle for one in expected}


def test_what_needed_a_move_that_was_cut_goes_too_and_by_the_same_rule() -> None:
    # b may only take 150 from a because it gives 160 to c; that is beyond the budget of sessions
    brokers = by_name(broker("a", 650), broker("b", 480), broker("c", 100))
    needs_room, makes_room = move("a>b", 150), move("b>c", 160, sessions=900)
    selection = select([needs_room, makes_room], brokers, {}, Settings(max_moved_sessions=100))
    assert selection.waves == ()
    assert selection.dropped == ((makes_room, "sessions-budget"), (needs_room, "sessions-budget"))


def planned(settings: Settings, moves: list | None = None) -> PlannedCluster:  # type: ignore[type-arg]
    brokers = [broker("a", 800), broker("b", 100)]
    return assemble([pool_plan(brokers, THREE if moves is None else moves)], context(settings))


def rows(plan: PlannedCluster, scope: str) -> list[Rejection]:
    return [row for row in plan.rejections if row.scope == scope]


def test_rejections_say_which_budget_binds_and_what_it_would_take() -> None:
    plan = planned(Settings(max_steps=1, transfer_aware_clients_share=1))
    assert len(plan.steps) == 1
    assert [row.rule for row in rows(plan, "bundle")] == ["step-budget"] * 2
    assert rows(plan, "bundle")[0].detail == (
        "its move from a to b is left out: it takes 1 step, and the budget max_steps = 1 has no room for it or for a "
        "step that it needs"
    )
    assert [row.detail for row in rows(plan, "plan")] == [
        "the budget max_steps = 1 leaves out 2 moves: all moves would take 3 steps"
    ]
    assert {row.broker for row in rows(plan, "broker")} == {"a"}


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ({"max_client_seconds": 50}, "max_client_seconds = 50 leaves out 1 move: all moves would take 71.430 client-s"),
        (
            {"tenant_max_sessions": 5},
            "tenant_max_sessions = 5 leaves out 3 moves: all moves of tenant blue would take 10",
        ),
        (
            {"wave_max_sessions": 9},
            "wave_max_sessions = 9 leaves out 3 moves: the largest of them takes 10 sessions by",
        ),
        ({"max_moved_bytes_per_s": 0}, "max_moved_bytes_per_s = 0 leaves out 3 moves: all moves would take 60 bytes/s"),
    ],
)
def test_every_kind_of_budget_says_what_it_would_take(budget: dict[str, float], words: str) -> None:
    (row,) = rows(planned(Settings(**budget)), "plan")  # type: ignore[arg-type]
    assert words in row.detail


@pytest.mark.parametrize(
    "budget",
    [budget.setting for budget in (*PLAN_BUDGETS, *TENANT_BUDGETS, *WAVE_BUDGETS)],
)
def test_budget_of_zero_gives_an_empty_plan_with_a_sentence(budget: str) -> None:
    plan = planned(Settings(**{budget: 0}))  # type: ignore[arg-type]
    assert plan.steps == []
    assert len(rows(plan, "plan")) == 1
    assert f"the budget {budget} = 0 leaves out 3 moves" in rows(plan, "plan")[0].detail
    assert plan.plan.disruption.client_seconds == 0
    assert [point.moves for point in plan.plan.curve] == [0]


@pytest.mark.parametrize("seed", range(20))
def test_no_budget_is_ever_exceeded(seed: int) -> None:
    chance = random.Random(seed)
    brokers = [*(broker(name, 800) for name in "abc"), *(broker(name, 100) for name in "xyz")]
    moves = [
        move(
            f"{chance.choice('abc')}>{chance.choice('xyz')}",
            chance.randrange(1, 8),
            bundle=f"tenant{chance.randrange(4)}/ns/{number}",
            sessions=chance.randrange(100),
        )
        for number in range(120)
    ]
    settings = Settings(
        max_steps=chance.randrange(20, 120),
        max_moved_bytes_per_s=chance.randrange(100, 1_000),
        max_moved_sessions=chance.randrange(500, 4_000),
        max_client_seconds=chance.randrange(500, 15_000),
        tenant_max_steps=chance.randrange(5, 30),
        tenant_max_moved_bytes_per_s=chance.randrange(40, 400),
        tenant_max_sessions=chance.randrange(100, 1_500),
        tenant_max_client_seconds=chance.randrange(100, 4_000),
        wave_max_moved_bytes_per_s=chance.randrange(20, 100),
        wave_max_sessions=chance.randrange(80, 400),
        wave_max_client_seconds=chance.randrange(100, 1_500),
    )
    plan = assemble([pool_plan(brokers, moves)], context(settings))
    assert 0 < len(plan.steps) <= settings.max_steps, f"seed {seed}"
    of_tenants, of_waves = defaultdict(list), defaultdict(list)
    for step in plan.steps:
        of_tenants[step.bundle.partition("/")[0]].append(step)
        of_waves[step.wave].append(step)
    assert_within(plan.steps, settings, "max_moved_bytes_per_s", "max_moved_sessions", "max_client_seconds")
    for steps in of_tenants.values():
        assert len(steps) <= settings.tenant_max_steps, f"seed {seed}"
        assert_within(
            steps, settings, "tenant_max_moved_bytes_per_s", "tenant_max_sessions", "tenant_max_client_seconds"
        )
    for steps in of_waves.values():
        assert_within(steps, settings, "wave_max_moved_bytes_per_s", "wave_max_sessions", "wave_max_client_seconds")
    left_out = Counter(row.bundle for row in rows(plan, "bundle"))
    assert set(left_out) | {step.bundle for step in plan.steps} == {one.move.bundle for one in moves}, f"seed {seed}"


@pytest.mark.parametrize("seed", range(6))
def test_planned_clusters_keep_every_rule_under_any_budget(seed: int) -> None:
    cluster = random_cluster(seed, n_brokers=6, n_bundles=60)
    settings = Settings(
        max_moved_sessions=20 + 30 * seed,
        tenant_max_client_seconds=2_000 - 300 * seed,
        wave_max_sessions=30,
        broker_max_topics=18,
        canary_steps=1 + seed % 2,
    )
    plan = plan_cluster(cluster, settings)
    found = find_violations(plan.steps, cluster.brokers, cluster.bundles, cluster.policies, settings)
    assert found == [], f"seed {seed}"
    assert plan.steps or plan.rejections, f"seed {seed}"


def assert_within(steps: list[Step], settings: Settings, of_bytes: str, sessions: str, seconds: str) -> None:
    moved = sum(step.throughput_in_bytes_per_s + step.throughput_out_bytes_per_s for step in steps)
    assert moved <= getattr(settings, of_bytes)
    assert sum(step.sessions for step in steps) <= getattr(settings, sessions)
    assert sum(step.disruption_client_ms for step in steps) <= 1_000 * getattr(settings, seconds)
