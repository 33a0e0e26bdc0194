"""Seeded random clusters: every plan is legal, no worse than before, and the same for any order of the rows."""

from __future__ import annotations

import pickle
from dataclasses import asdict

import pytest

from evenkeel.model.settings import Settings
from evenkeel.planning.pool.description import describe
from evenkeel.planning.problem.problem import pool_problems
from evenkeel.planning.search.bounds import certify
from evenkeel.planning.search.optimiser import search
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, leave_uncertified, plan, random_cluster, solve_pools

SEEDS = range(40)


def assert_legal(cluster: Cluster, settings: Settings, seed: int, has_time: bool = True) -> None:
    """Plan and judge; without time the search ends after its first rounds, which take a fraction of it."""
    planned = plan(cluster, settings, has_time=lambda: has_time, certifier=leave_uncertified)
    found = find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, settings)
    assert found == [], f"seed {seed}"
    violations = planned.plan.violations
    before, after = (asdict(side) for side in (violations.before, violations.after))
    assert all(after[rule] <= count for rule, count in before.items()), f"seed {seed}"


@pytest.mark.parametrize("seed", SEEDS)
def test_any_cluster_gets_a_legal_plan(seed: int) -> None:
    cluster = random_cluster(seed)
    assert_legal(cluster, Settings(), seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_budget_gets_a_legal_plan(seed: int) -> None:
    cluster = random_cluster(seed)
    assert_legal(cluster, Settings(max_steps=seed % 13, wave_steps=3, canary_steps=2), seed, has_time=seed % 4 == 0)


@pytest.mark.parametrize("line", [30.0, 45.0, 60.0])
@pytest.mark.parametrize("seed", range(8))
def test_crowded_clusters_get_a_legal_plan(seed: int, line: float) -> None:
    cluster = random_cluster(seed)
    assert_legal(cluster, Settings(broker_overloaded_threshold_percentage=line), seed, has_time=line == 45.0)


@pytest.mark.parametrize("seed", range(6))
def test_plan_does_not_depend_on_the_order_of_the_rows(seed: int) -> None:
    cluster = random_cluster(seed)
    first, second = plan(cluster), plan(cluster.shuffled(seed))
    assert first.plan.plan_id == second.plan.plan_id, f"seed {seed}"
    assert first == second


@pytest.mark.parametrize("seed", range(4))
def test_pool_plans_survive_pickle(seed: int) -> None:
    plans = solve_pools(random_cluster(seed), Settings())
    assert pickle.loads(pickle.dumps(plans)) == plans


@pytest.mark.parametrize("seed", range(3))
def test_skewed_cluster_comes_into_the_band_with_hardly_more_moves_than_any_plan_needs(seed: int) -> None:
    planned = plan(random_cluster(seed, n_brokers=20, n_bundles=960, is_varied=False))
    assert planned.plan.balance.before["cpu"].max_over_mean > 1.3, f"seed {seed}"
    assert all(row.used_after <= row.band_limit for row in planned.brokers), f"seed {seed}"
    assert planned.plan.gap.moves <= 1.05, f"seed {seed}"
    assert planned.rejections == []


def test_search_that_runs_out_of_time_says_so_and_is_still_legal() -> None:
    # Seed 4 has a pool that stays above its band, so the search would go on if it could.
    cluster = random_cluster(4)
    problems = list(pool_problems(cluster.brokers, cluster.bundles, cluster.policies, Settings()))
    hurried = [search(problem, Settings(), has_time=lambda: False) for problem in problems]
    assert any(solution.truncated for solution in hurried)
    for solution in hurried:
        bounds = certify(solution)
        assert describe(solution, Settings(), bounds).truncated == solution.truncated
