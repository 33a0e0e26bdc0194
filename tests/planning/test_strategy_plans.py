"""Plans by Pulsar's own strategies: what they decide, as far as the hard rules allow it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pytest

from evenkeel.model.plan import Rejection, StepKind
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import PlannedCluster, assemble
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.problem.disruption import client_milliseconds
from evenkeel.planning.problem.pools import cut_into_pools
from evenkeel.planning.pulsar_strategies.comparison import describe_counterfactuals, leave_out_counterfactuals
from evenkeel.planning.pulsar_strategies.counterfactual import STRATEGIES, StrategyDecision, decide
from evenkeel.planning.pulsar_strategies.strategy_plan import (
    ILLEGAL_MOVE,
    STRATEGY_STOPPED,
    WORSENING_MOVE,
    strategy_pool_plan,
)
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, broker, bundles, context, isolation, plan, random_cluster

# Pulsar's thresholds are made for real traffic; these clusters carry some bytes.
SMALL_TRAFFIC = {"bundle_unload_min_throughput_threshold": 0.0}
SETTINGS = Settings.from_json(SMALL_TRAFFIC)


def plan_as(strategy: str, cluster: Cluster, settings: Settings = SETTINGS) -> PlannedCluster:
    decision = decide(strategy, cluster.brokers, cluster.bundles, cluster.policies, settings)
    plans = [
        strategy_pool_plan(pool, cluster.brokers, rows, cluster.policies, settings, decision)
        for pool, rows in cut_into_pools(cluster.brokers, cluster.bundles, cluster.policies)
    ]
    sent = [PoolPlan.from_json(each.to_json()) for each in plans]
    return assemble(sent, context(settings, strategy=strategy))


def carry_out(cluster: Cluster, destinations: dict[str, str], settings: Settings = SETTINGS) -> PoolPlan:
    """The plan of the first pool for moves of these bundles, by the beginning of their names."""
    names = [str(name) for name in cluster.bundles.bundle]
    wanted = {next(n for n in names if n.startswith(short)): f"{to}:8080" for short, to in destinations.items()}
    decision = StrategyDecision("transfer-shedder", wanted, "the test says so")
    pool = min(each.broker_id for each in cluster.brokers)
    return strategy_pool_plan(pool, cluster.brokers, cluster.bundles, cluster.policies, settings, decision)


def sentences(rejections: Sequence[Rejection], rule: str) -> list[str]:
    return [row.detail for row in rejections if row.rule == rule]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_plans_of_any_strategy_are_legal_and_make_nothing_worse(strategy: str) -> None:
    settings = Settings.from_json(SMALL_TRAFFIC | {"shedding_bundles_with_policies_enabled": True})
    steps, refused = 0, 0
    for seed in range(16):
        cluster = random_cluster(seed)
        planned = plan_as(strategy, cluster, settings)
        found = find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, settings)
        assert found == [], f"seed {seed}"
        steps += len(planned.steps)
        refused += len(sentences(planned.rejections, ILLEGAL_MOVE))
    assert steps > 20
    assert refused > 20


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("seed", range(3))
def test_plan_does_not_depend_on_the_order_of_the_rows(seed: int, strategy: str) -> None:
    cluster = random_cluster(seed, n_brokers=12, n_bundles=160, is_varied=False)
    first, second = plan_as(strategy, cluster), plan_as(strategy, cluster.shuffled(seed))
    assert first.steps
    assert first == second, f"seed {seed}"


def test_plan_is_what_the_strategy_decides_where_no_rule_speaks_against_it() -> None:
    cluster = random_cluster(5, n_brokers=12, n_bundles=400, is_varied=False)
    decision = decide("threshold-shedder", cluster.brokers, cluster.bundles, cluster.policies, SETTINGS)
    planned = plan_as("threshold-shedder", cluster)
    assert len(planned.steps) > 10
    assert {step.bundle: step.destination for step in planned.steps} == decision.destinations
    assert planned.plan.strategy == "threshold-shedder"
    assert planned.plan.bounds == plan(cluster, SETTINGS).plan.bounds


def test_step_says_who_decided_and_how_much_hotter_the_source_is() -> None:
    cluster = Cluster((broker("b1"), broker("b2")), bundles({"b1": [("t/a", 300), ("t/b", 400)]}))
    (move,) = carry_out(cluster, {"t/a": "b2"}).moves
    assert move.reason == (
        "TransferShedder: b1:8080 is hotter than b2:8080 by 70.0 points, 70.0 % of its cpu limit against "
        "0.0 % of its cpu limit"
    )


def test_half_of_a_swap_says_that_its_source_is_not_hotter() -> None:
    placed = {"b1": [("t/a", 300), ("t/b", 400)], "b2": [("t/c", 100)]}
    plan = carry_out(Cluster((broker("b1"), broker("b2")), bundles(placed)), {"t/b": "b2", "t/c": "b1"})
    (back,) = [move for move in plan.moves if move.bundle.startswith("t/c")]
    assert back.reason.startswith("TransferShedder: a swap or a later cycle, for b2:8080 is not hotter than b1:8080")


def test_moves_against_a_hard_rule_are_left_out_with_that_rule() -> None:
    placed = {"b1": [("t/gold", 100), ("t/kept", 100), ("t/plain", 400)]}
    cluster = Cluster(
        (broker("b1"), broker("b2"), broker("b3", state="Stopping")),
        bundles(placed),
        Policies(isolation=(isolation("gold", ["t/gold"], ["b[13]"]),), excluded_namespaces=frozenset({"t/kept"})),
    )
    plan = carry_out(cluster, {"t/gold": "b2", "t/kept": "b2", "t/plain": "b2"})
    assert plan.moves == ()
    details = sentences(plan.refusals.lasting, ILLEGAL_MOVE)
    assert [detail.partition("left out: ")[2] for detail in details] == [
        "b2:8080 may not own t/gold by isolation policy gold",
    ]
    unruled = Cluster(cluster.brokers, cluster.bundles, Policies(excluded_namespaces=frozenset({"t/kept"})))
    plan = carry_out(unruled, {"t/gold": "b3", "t/kept": "b2", "t/plain": "b2"})
    assert [move.bundle.partition("/0x")[0] for move in plan.moves] == ["t/plain"]
    assert [detail.partition("left out: ")[2] for detail in sentences(plan.refusals.lasting, ILLEGAL_MOVE)] == [
        "b3:8080 is Stopping and may not receive",
        "its namespace is excluded from moves by the settings or in Pulsar",
    ]


@pytest.mark.parametrize("load_manager", ["extensible", "modular"])
def test_move_to_a_broker_of_an_older_version_says_so(load_manager: str) -> None:
    versions = {"b1": "4.2.4", "b2": "4.1.0", "b3": "4.2.4"}
    brokers = tuple(
        dataclasses.replace(broker(name), load_manager=load_manager, version=version)
        for name, version in versions.items()
    )
    settings = dataclasses.replace(SETTINGS, prefer_later_versions=True)
    plan = carry_out(Cluster(brokers, bundles({"b1": [("t/a", 300), ("t/b", 400)]})), {"t/a": "b2"}, settings)
    assert [detail.partition("left out: ")[2] for detail in sentences(plan.refusals.lasting, ILLEGAL_MOVE)] == [
        "b2:8080 would have to run the latest version"
    ]


def test_move_that_would_raise_the_peak_of_its_pool_is_left_out() -> None:
    placed = {"b1": [("t/a", 300), ("t/b", 300)], "b2": [("t/c", 500)]}
    plan = carry_out(Cluster((broker("b1"), broker("b2")), bundles(placed)), {"t/a": "b2"})
    assert plan.moves == ()
    assert sentences(plan.refusals.lasting, WORSENING_MOVE) == [
        "TransferShedder would move it from b1:8080 to b2:8080, which is left out: it would leave the pool with a "
        "higher peak than before, outside of the band"
    ]


def test_destination_may_end_outside_of_the_band_but_not_above_the_old_peak() -> None:
    placed = {"b1": [("t/a", 400), ("t/b", 300)], "b2": [("t/c", 200)], "b3": [("t/d", 100)]}
    cluster = Cluster((broker("b1"), broker("b2"), broker("b3")), bundles(placed))
    planned = assemble([carry_out(cluster, {"t/a": "b2"})], context(SETTINGS))
    assert [(step.source, step.destination) for step in planned.steps] == [("b1:8080", "b2:8080")]
    assert find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, SETTINGS) == []
    assert sentences(planned.rejections, STRATEGY_STOPPED)[-1] == (
        "ends at 60.0 % of its cpu limit (before: 20.0 %), where the band ends at 34.9 %: TransferShedder rests "
        "because the test says so"
    )


def test_comparison_has_a_row_of_figures_for_each_strategy() -> None:
    cluster = random_cluster(5, n_brokers=12, n_bundles=400, is_varied=False)
    rows = describe_counterfactuals(cluster.brokers, cluster.bundles, cluster.policies, SETTINGS)
    assert [row.strategy for row in rows] == list(STRATEGIES)
    for row in rows:
        planned = plan_as(row.strategy, cluster)
        # Nothing was left out of these plans, so the two must agree.
        assert row.illegal == 0
        assert row.moves == len(planned.steps)
        assert row.worst_before == planned.plan.curve[0].worst == plan(cluster).plan.curve[0].worst
        assert row.worst_after == planned.plan.curve[-1].worst
        assert row.unloads - row.repeat_unloads >= row.moves
        assert row.moved_sessions == 10 * row.unloads
    assert rows[1].unloads > 0
    assert rows[1].client_seconds > 0
    assert rows[1].explanation


def test_comparison_prices_transfers_of_a_modular_cluster_as_its_steps_are_priced() -> None:
    brokers = tuple(dataclasses.replace(broker(name), load_manager="modular") for name in ("b1", "b2"))
    placed = bundles({"b1": [("t/a", 400), ("t/b", 300), ("t/c", 200)]})
    rows = describe_counterfactuals(brokers, placed, Policies(), SETTINGS)
    row = next(row for row in rows if row.strategy == "transfer-shedder")
    each = client_milliseconds(StepKind.UNLOAD, 10, 1, SETTINGS)
    assert row.client_seconds == row.unloads * each / 1000 > 0


def test_comparison_counts_moves_against_hard_rules() -> None:
    placed = {"b1": [("t/a", 400), ("t/b", 300), ("t/c", 200)]}
    cluster = Cluster((broker("b1"), broker("b2", state="Stopping")), bundles(placed))
    row = describe_counterfactuals(cluster.brokers, cluster.bundles, cluster.policies, SETTINGS)[1]
    assert row.illegal == row.moves > 0


def test_comparison_of_a_huge_cluster_is_left_out_with_a_sentence() -> None:
    rows = leave_out_counterfactuals(1_200_000, Settings())
    assert [row.strategy for row in rows] == list(STRATEGIES)
    assert all(row.unloads is None for row in rows)
    assert rows[0].stopped_because == (
        "the comparison is left out: 1,200,000 bundles are more than 1,000,000 (setting counterfactual_max_bundles)"
    )


def test_cluster_without_bundles_is_compared_too() -> None:
    cluster = Cluster((broker("b1"), broker("b2")), bundles({}))
    rows = describe_counterfactuals(cluster.brokers, cluster.bundles, cluster.policies, SETTINGS)
    assert [(row.moves, row.worst_before, row.worst_after) for row in rows] == [(0, 0.0, 0.0)] * 2
