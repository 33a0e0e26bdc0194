"""Every figure in every sentence of a plan is that of the plan's own tables, whatever budgets and waves left of it."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from benchmarks.clusters.generate import SCENARIOS, generate_cluster
from benchmarks.plan.cases import read_cluster
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import PlannedCluster, assemble
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.pool.planner import plan_pool
from evenkeel.planning.problem.pools import cut_into_pools
from evenkeel.planning.pulsar_strategies.counterfactual import STRATEGIES, decide
from evenkeel.planning.pulsar_strategies.strategy_plan import strategy_pool_plan
from evenkeel.planning.splitting.choice import find_large_bundles
from support.clusters import Cluster, broker, context, leave_uncertified, random_cluster
from support.sentences import find_false_sentences
from support.splits import split_bundles

BUDGETS = {
    "no budget": {},
    "few steps": {"max_steps": 7},
    "few sessions": {"max_moved_sessions": 300},
    "little disruption": {"max_client_seconds": 400.0},
    "little per tenant": {"tenant_max_steps": 1},
    "small waves": {"wave_max_sessions": 30, "canary_steps": 2},
    "moves": {"objective": "moves", "max_steps": 11},
    "disruption": {"objective": "disruption", "max_moved_bytes_per_s": 4e9},
}


def generated(scenario: str, folder: Path, brokers: int = 10, bundles: int = 480) -> Cluster:
    generate_cluster(scenario, brokers, bundles, seed=3, folder=folder)
    read = read_cluster(folder)
    return Cluster(tuple(read.brokers), read.bundles, read.policies)


def plan_generated(cluster: Cluster, settings: Settings) -> PlannedCluster:
    """A plan without the searches that only make it cheaper, which take longest and say nothing else."""
    large = find_large_bundles(cluster.brokers, cluster.bundles, cluster.policies, settings)
    plans = [
        plan_pool(pool, cluster.brokers, rows, cluster.policies, settings, large, lambda: False, leave_uncertified)
        for pool, rows in cut_into_pools(cluster.brokers, cluster.bundles, cluster.policies)
    ]
    return assemble([PoolPlan.from_json(each.to_json()) for each in plans], context(settings))


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("budget", BUDGETS)
def test_sentences_of_generated_clusters_are_true(scenario: str, budget: str, tmp_path: Path) -> None:
    cluster, settings = generated(scenario, tmp_path), Settings.from_json(BUDGETS[budget])
    planned = plan_generated(cluster, settings)
    assert planned.steps, "the cluster gives no sentence to look at"
    assert find_false_sentences(planned, cluster, settings) == []


@pytest.mark.parametrize("seed", range(12))
def test_sentences_of_odd_clusters_are_true(seed: int) -> None:
    # policies, anti-affinity groups, brokers that are drained or gone, unknown limits
    cluster = random_cluster(seed)
    for changes in ({}, {"max_steps": 3}, {"max_moved_sessions": 60, "broker_max_topics": 25}):
        settings = Settings.from_json(changes)
        planned = plan_generated(cluster, settings)
        assert find_false_sentences(planned, cluster, settings) == [], f"seed {seed}, {changes}"


@pytest.mark.parametrize("seed", range(4))
def test_sentences_of_a_drain_are_true(seed: int, tmp_path: Path) -> None:
    whole = generated("skew", tmp_path)
    drained = [
        dataclasses.replace(row, state="Stopping") if place == seed else row for place, row in enumerate(whole.brokers)
    ]
    cluster = dataclasses.replace(whole, brokers=tuple(drained))
    for steps in (5_000, 30):
        settings = Settings(max_steps=steps)
        planned = plan_generated(cluster, settings)
        assert any("is Stopping and is being emptied" in step.reason for step in planned.steps)
        assert find_false_sentences(planned, cluster, settings) == []


def test_sentences_about_splits_are_true() -> None:
    # b1: 700 60 60 | b2: 90 | b3: nothing; the bundle of 700 is too big for any broker
    placed = {"b1": [("t/huge", 700, 8), ("t/a", 60, 2), ("t/b", 60, 2)], "b2": [("t/c", 90, 2)]}
    cluster = Cluster((broker("b1"), broker("b2"), broker("b3")), split_bundles(placed))
    for steps in (5_000, 3, 2, 1):
        settings = Settings(max_steps=steps)
        planned = plan_generated(cluster, settings)
        said = [step.reason for step in planned.steps] + [row.detail for row in planned.rejections]
        assert any("too big for any broker" in sentence for sentence in said)
        assert find_false_sentences(planned, cluster, settings) == [], f"{steps} steps"


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_sentences_of_pulsars_strategies_are_true(strategy: str, tmp_path: Path) -> None:
    cluster = generated("hetero", tmp_path, brokers=6, bundles=96)
    for steps in (5_000, 3):
        settings = Settings(max_steps=steps, broker_load_target_std=0.05)
        decision = decide(strategy, cluster.brokers, cluster.bundles, cluster.policies, settings)
        plans = [
            strategy_pool_plan(pool, cluster.brokers, rows, cluster.policies, settings, decision)
            for pool, rows in cut_into_pools(cluster.brokers, cluster.bundles, cluster.policies)
        ]
        planned = assemble(plans, context(settings, strategy=strategy))
        assert planned.steps, "the strategy gives no sentence to look at"
        assert find_false_sentences(planned, cluster, settings) == []


def test_reader_notices_every_figure_that_is_changed(tmp_path: Path) -> None:
    cluster, settings = generated("multi", tmp_path), Settings(max_steps=9)
    planned = plan_generated(cluster, settings)
    assert find_false_sentences(planned, cluster, settings) == []
    noticed = 0
    for place, step in enumerate(planned.steps):
        for figure in re.finditer(r"(?<![\w.:-])\d+(?:\.\d)?(?= (?:%|points|brokers|have|sessions))", step.reason):
            changed = f"{step.reason[: figure.start()]}{float(figure[0]) + 1:g}{step.reason[figure.end() :]}"
            steps = [dataclasses.replace(step, reason=changed) if s is step else s for s in planned.steps]
            forged = dataclasses.replace(planned, steps=steps)
            assert find_false_sentences(forged, cluster, settings), f"step {place}: {changed}"
            noticed += 1
    assert noticed > 5 * len(planned.steps)
