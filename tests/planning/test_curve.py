"""The curve of balance against moves, and the bound that goes with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import assemble
from evenkeel.planning.cluster.curve import MOST_POINTS
from evenkeel.planning.problem.band import find_band
from evenkeel.planning.problem.pools import assign_pools, live_broker_ids
from evenkeel.planning.problem.problem import build_problem
from evenkeel.planning.search.hot_brokers import fewest_to_cover, largest_loads
from support.clusters import Cluster, broker, bundles, context, plan, random_cluster
from support.moves import broker as loaded
from support.moves import move, pool_plan


def test_curve_goes_from_nothing_to_the_whole_plan() -> None:
    # the lowest peak is at half of each broker: a starts at 1.6 of it, b ends at 0.6 of it
    moves = [move("a>b", 200, sessions=5, benefit=2), move("a>b", 100, sessions=7, benefit=1)]
    settings = Settings(transfer_aware_clients_share=1.0, consumer_sessions_share=0.0)
    curve = assemble([pool_plan([loaded("a", 800), loaded("b", 0)], moves)], context(settings)).plan.curve
    assert [point.worst for point in curve] == [1.6, 1.2, 1.0]
    assert [point.moves for point in curve] == [0, 1, 2]
    assert [point.sessions for point in curve] == [0, 5, 12]
    assert [point.client_seconds for point in curve] == [0, 3.325, 7.98]
    assert curve[1].resources == {"cpu": 1.2, "bandwidth_in": 1.2, "bandwidth_out": 1.2}


def test_curve_of_a_long_plan_has_few_points_and_both_ends() -> None:
    moves = [move("a>b", 1) for _ in range(300)]
    curve = assemble([pool_plan([loaded("a", 800), loaded("b", 0)], moves)], context(Settings())).plan.curve
    assert len(curve) == MOST_POINTS
    assert (curve[0].moves, curve[-1].moves) == (0, 300)
    assert curve[-1].worst == 1.0


def test_curve_of_an_empty_cluster_is_one_point() -> None:
    (point,) = plan(Cluster((), bundles({}))).plan.curve
    assert (point.moves, point.worst, point.least_moves) == (0, 0.0, 0)


def test_largest_loads_are_as_many_as_cover_what_lies_above_the_band() -> None:
    # b1: 300 200 100 50 | b2: nothing; the band ends at 325, so 325 must go: two bundles at least
    cluster = Cluster((broker("b1"), broker("b2")), bundles({"b1": [("t/a", load) for load in (100, 300, 50, 200)]}))
    problem = build_problem("b1:8080", cluster.brokers, cluster.bundles, cluster.policies, Settings())
    assert largest_loads(problem, find_band(problem, Settings(tolerance=0.0))) == [((300, 200),) * 3, ((), (), ())]


@pytest.mark.parametrize(("excess", "fewest"), [(-5, 0), (0, 0), (1, 1), (300, 1), (301, 2), (500, 2), (501, 2)])
def test_fewest_loads_that_cover_an_excess(excess: int, fewest: int) -> None:
    assert fewest_to_cover(np.array([300, 500]), excess) == fewest


@pytest.mark.parametrize("seed", range(25))
def test_no_plan_comes_as_far_with_fewer_moves_than_the_curve_says(seed: int) -> None:
    cluster = random_cluster(seed, n_brokers=3, n_bundles=7, is_varied=False)
    curve = plan(cluster, Settings(tolerance=0.0)).plan.curve
    reached = _fewest_moves_by_worst(cluster)
    for point in curve:
        true_fewest = min(moves for worst, moves in reached if worst <= point.worst + 1e-6)
        assert point.least_moves <= true_fewest <= point.moves, f"seed {seed}"


def _fewest_moves_by_worst(cluster: Cluster) -> list[tuple[float, int]]:
    """For every placement how far it comes and what it takes, by trying all of them."""
    (pool,) = set(
        assign_pools(
            cluster.bundles.namespace, live_broker_ids(cluster.brokers), cluster.policies
        ).pool_of_broker.values()
    )
    problem = build_problem(pool, cluster.brokers, cluster.bundles, cluster.policies, Settings())
    floor = np.array(find_band(problem, Settings()).peak_ppb) / 1e9
    reached = []
    for placement in itertools.product(range(len(problem.broker_ids)), repeat=len(problem.bundles)):
        owner = np.array(placement)
        worst = float((problem.used(owner) / problem.limit / floor).max())
        reached.append((worst, int((owner != problem.owner).sum())))
    return reached
