"""Bounds hold for every plan: compared with all placements of tiny clusters."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable

import numpy as np
import pytest

from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.problem.band import PPB, find_band, lowest_peak, overload_caps
from evenkeel.planning.problem.columns import UNLIMITED
from evenkeel.planning.problem.problem import Mobility, PoolProblem, build_problem
from evenkeel.planning.search import bounds as pool_bounds
from evenkeel.planning.search.bounds import PoolBounds, bound_pool, certify, find_bounds, find_forced
from evenkeel.planning.search.hot_brokers import cheapest_part, fewest_bundles
from evenkeel.planning.search.optimiser import search
from evenkeel.planning.search.placement import Placement
from support.clusters import Cluster, broker, bundles, isolation, plan
from support.splits import split_bundles, split_candidate

SETTINGS = Settings(tolerance=0.3)
N_BROKERS, N_BUNDLES = 3, 7


def tiny_problem(seed: int) -> PoolProblem:
    """Three brokers, seven bundles; on odd seeds two classes that share a broker, on every fifth one is emptied."""
    chance = random.Random(seed)
    placed: dict[str, list[tuple[str, tuple[int, int, int]]]] = {f"b{i}": [] for i in range(N_BROKERS)}
    # Both namespaces have bundles, so that all brokers are one pool.
    names = ["t/a", "t/b", *chance.choices(["t/a", "t/b"], k=N_BUNDLES - 2)]
    for name in names:
        load = (chance.randint(1, 90), chance.randint(1, 90), chance.randint(1, 90))
        placed[f"b{int(chance.triangular(0, N_BROKERS, 0)) % N_BROKERS}"].append((name, load))
    both = (isolation("a", ["t/a"], ["b[01]"]), isolation("b", ["t/b"], ["b[12]"]))
    policies = Policies(isolation=both if seed % 2 else ())
    states = ["Stopping" if seed % 5 == 4 and i == 1 else "Active" for i in range(N_BROKERS)]
    brokers = [broker(f"b{i}", chance.choice((1, 2)), states[i]) for i in range(N_BROKERS)]
    columns = bundles(placed)
    columns = dataclasses.replace(columns, sessions=np.array([chance.randint(0, 40) for _ in range(N_BUNDLES)]))
    return build_problem("b0:8080", brokers, columns, policies, SETTINGS)


def odd_problem(seed: int) -> PoolProblem:
    """Three brokers, seven bundles: limits unknown, bundles excluded, in flight or grouped, a broker just starting."""
    chance = random.Random(f"odd {seed}")
    placed: dict[str, list[tuple[str, tuple[int, int, int]]]] = {f"b{i}": [] for i in range(N_BROKERS)}
    for name in ["t/a", "t/b", *chance.choices(["t/a", "t/b", "t/c"], k=N_BUNDLES - 2)]:
        load = (chance.randint(1, 90), chance.randint(1, 90), chance.randint(1, 90))
        placed[f"b{chance.randrange(N_BROKERS)}"].append((name, load))
    both = (isolation("a", ["t/a"], ["b[01]"]), isolation("b", ["t/b"], ["b[12]"]))
    policies = Policies(
        isolation=both if chance.random() < 0.8 else (),
        anti_affinity={name: "g" for name in ("t/a", "t/b") if chance.random() < 0.4},
        excluded_namespaces=frozenset(name for name in ("t/a", "t/b") if chance.random() < 0.2),
    )
    states = ["Active", chance.choice(["Active", "Active", "Stopping"]), chance.choice(["Active", "Active", "Initial"])]
    brokers = [
        broker(f"b{i}", state=states[i], domain=f"zone-{i % 2}", limits=_some_limits(chance)) for i in range(N_BROKERS)
    ]
    columns = dataclasses.replace(
        bundles(placed),
        topics=np.array([chance.randint(1, 3) for _ in range(N_BUNDLES)]),
        sessions=np.array([chance.randint(0, 40) for _ in range(N_BUNDLES)]),
        state=np.array(chance.choices(["Owned", "Releasing"], [6, 1], k=N_BUNDLES), dtype=object),
    )
    return build_problem("b0:8080", brokers, columns, policies, SETTINGS)


def _some_limits(chance: random.Random) -> tuple[float, float, float]:
    """Small enough that the overload line is sometimes in the way; 0 is unknown."""
    size = chance.choice((150, 300, 1000))
    cpu, bandwidth_in, bandwidth_out = (0 if chance.random() < 0.15 else size for _ in range(3))
    return cpu, bandwidth_in, bandwidth_out


def settings_of(seed: int) -> Settings:
    """On every third seed a broker is full of topics soon."""
    return dataclasses.replace(SETTINGS, broker_max_topics=8) if seed % 3 == 0 else SETTINGS


def best_repairing(problem: PoolProblem, settings: Settings) -> np.ndarray:
    """Every placement that keeps all rules, and than which no other repairs more beside the same: a row each."""
    may_move = problem.destinations(np.arange(len(problem.bundles))) & (problem.mobility == Mobility.FREE)[:, None]
    may_move[np.arange(len(problem.bundles)), problem.owner] = True
    placements = np.array(list(itertools.product(*[np.flatnonzero(row) for row in may_move])))
    legal = placements[is_legal(problem, placements, settings)]
    repaired = (legal != problem.owner)[:, problem.must_move]
    variants = np.unique(repaired, axis=0)
    is_best = [not any((other >= row).all() and (other > row).any() for other in variants) for row in variants]
    best = {row.tobytes() for row in variants[is_best]}
    return legal[[row.tobytes() in best for row in repaired]]


def is_legal(problem: PoolProblem, placements: np.ndarray, settings: Settings) -> np.ndarray:
    """Which placements, however they are reached, end with no rule broken that was not broken before."""
    receives = add_up(problem, placements, placements != problem.owner) > 0
    ceiling = np.maximum(overload_caps(problem.limit, settings), problem.used(problem.owner))
    is_overfull = (uses(problem, placements) > ceiling).any(axis=2)
    is_overfull |= add_up(problem, placements, problem.topics) >= settings.broker_max_topics
    crowds = [crowding(problem, each) for each in (placements, problem.owner[None, :])]
    return ~(receives & is_overfull).any(axis=1) & (crowds[0] <= crowds[1]).all(axis=1)


def crowding(problem: PoolProblem, placements: np.ndarray) -> np.ndarray:
    """The most bundles of the group on a broker, and in a failure domain."""
    on_broker = add_up(problem, placements, problem.group >= 0)
    in_domain = on_broker @ (problem.domain[:, None] == np.arange(N_BROKERS))
    return np.stack([on_broker.max(axis=1), in_domain.max(axis=1)], axis=1)


def add_up(problem: PoolProblem, placements: np.ndarray, figure: np.ndarray) -> np.ndarray:
    """The sum of a figure of the bundles for every placement and broker."""
    is_owner = placements[:, :, None] == np.arange(len(problem.broker_ids))
    return (is_owner * np.broadcast_to(figure, placements.shape)[:, :, None]).sum(axis=1)


def uses(problem: PoolProblem, placements: np.ndarray) -> np.ndarray:
    """The load of every placement, broker and resource."""
    return np.stack([add_up(problem, placements, load) for load in problem.load.T], axis=2)


def inside(problem: PoolProblem, placements: np.ndarray, cap: np.ndarray) -> np.ndarray:
    """The placements that leave no broker above its cap."""
    is_balanced = problem.is_member & ~problem.must_be_emptied
    return placements[(uses(problem, placements) <= cap)[:, is_balanced].all(axis=(1, 2))]


def bounds_of(problem: PoolProblem, placements: np.ndarray, settings: Settings) -> list[PoolBounds]:
    """The bounds as they are where no plan is known, and as they are where one repairs everything, if one can."""
    band = find_band(problem, settings)
    can_repair_all = (placements != problem.owner)[:, problem.must_move].all(axis=1).any()
    return [
        # Figures of a plan far above all bounds, so that the whole pool's program is asked too.
        find_bounds(
            problem, band, find_forced(Placement(problem, band, settings), is_shown=shown), UNLIMITED, UNLIMITED
        )
        for shown in ([False, True] if can_repair_all else [False])
    ]


TINY = [*((tiny_problem, seed) for seed in range(60)), *((odd_problem, seed) for seed in range(150))]


@pytest.mark.parametrize(("draw", "seed"), TINY)
def test_no_placement_beats_the_bounds(draw: Callable[[int], PoolProblem], seed: int) -> None:
    problem, settings = draw(seed), settings_of(seed)
    placements = best_repairing(problem, settings)
    moved = inside(problem, placements, find_band(problem, settings).loose_cap) != problem.owner
    limit = np.where((problem.limit > 0) & (problem.is_member & ~problem.must_be_emptied)[:, None], problem.limit, 0)
    peaks = np.where(limit > 0, uses(problem, placements) / np.maximum(limit, 1), 0.0).max(axis=1)
    for bounds in bounds_of(problem, placements, settings):
        assert (np.array(bounds.peak_ppb) <= peaks.min(axis=0) * PPB + 1).all(), f"seed {seed}"
        if len(moved):
            assert bounds.moves <= moved.sum(axis=1).min(), f"seed {seed}"
            assert bounds.sessions <= (moved @ problem.sessions).min(), f"seed {seed}"
            assert (np.array(bounds.moved_load) <= (moved @ problem.load).min(axis=0)).all(), f"seed {seed}"


def test_bounds_of_tiny_clusters_are_mostly_exact() -> None:
    exact = reached = 0
    for seed in range(60):
        problem = tiny_problem(seed)
        placements = best_repairing(problem, SETTINGS)
        moved = inside(problem, placements, find_band(problem, SETTINGS).loose_cap) != problem.owner
        if len(moved):
            reached += 1
            bounds = bounds_of(problem, placements, SETTINGS)[-1]
            exact += bounds.moves == moved.sum(axis=1).min()
            exact += bounds.sessions == (moved @ problem.sessions).min()
    assert reached >= 20
    assert exact >= 1.8 * reached


def test_search_that_finds_no_answer_is_made_longer_until_it_tells_its_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = tiny_problem(5)
    band = find_band(problem, SETTINGS)
    forced = find_forced(Placement(problem, band, SETTINGS), is_shown=False)

    def bound(*nodes: int) -> int:
        monkeypatch.setattr(pool_bounds, "POOL_NODES", nodes)
        return bound_pool(problem, band, forced, np.ones(len(problem.bundles), dtype=np.int64))

    assert (bound(0), bound(0, 20)) == (0, 4)


def test_excluded_bundle_in_the_wrong_place_does_not_weigh_where_it_should_be() -> None:
    # b1 of 1000: nothing | b2 of 10000: 800 that nobody may move though only b1 may own it, and 10
    policies = Policies(
        isolation=(isolation("a", ["t/a"], ["b1"]), isolation("b", ["t/b"], ["b[12]"])),
        excluded_namespaces=frozenset({"t/a"}),
    )
    planned = plan(Cluster((broker("b1"), broker("b2", 10)), bundles({"b2": [("t/a", 800), ("t/b", 10)]}), policies))
    # it weighs on b2, where it stays: 800 of 10000 at least, where the mean is 810 of 11000
    assert planned.plan.bounds.max_over_mean["cpu"] == pytest.approx(1.0864, abs=1e-4)
    assert planned.plan.balance.after["cpu"].max_over_mean == 1.1
    (pool,) = planned.plan.pools
    assert pool.lowest_peak["cpu"] == 0.08


def test_repair_that_a_group_forbids_is_neither_counted_nor_aimed_at() -> None:
    # b1: 10 | b2: 600 of group g on a stopping broker, b1 has one of g already
    policies = Policies(anti_affinity={"t/a": "g", "t/b": "g"})
    brokers = (broker("b1"), broker("b2", state="Stopping"), broker("b3", limits=(0, 0, 0)))
    placed = {"b1": [("t/a", 10)], "b2": [("t/b", 600)], "b3": [("t/a", 10)]}
    planned = plan(Cluster(brokers, bundles(placed), policies))
    assert planned.steps == []
    assert planned.plan.bounds.moves == 0
    assert planned.plan.bounds.moved_share["cpu"] == 0
    (pool,) = planned.plan.pools
    assert pool.lowest_peak["cpu"] == 0.01


def test_repair_that_the_topic_limit_forbids_is_neither_counted_nor_aimed_at() -> None:
    # b1: 10, full of topics | b2: 600 on a stopping broker
    brokers = (broker("b1"), broker("b2", state="Stopping"))
    cluster = Cluster(brokers, bundles({"b1": [("t/a", 10)], "b2": [("t/b", 600)]}))
    planned = plan(cluster, Settings(broker_max_topics=2))
    assert planned.steps == []
    assert planned.plan.bounds.moves == 0
    (pool,) = planned.plan.pools
    assert pool.lowest_peak["cpu"] == 0.01


def test_repairs_that_nothing_can_keep_back_are_counted_beside_one_that_is_kept() -> None:
    # b1: 10, b3: 10, both of group g | b2: 600 of g and 50 on a stopping broker
    policies = Policies(anti_affinity={"t/a": "g", "t/b": "g"})
    brokers = (broker("b1"), broker("b2", state="Stopping"), broker("b3"))
    placed = {"b1": [("t/a", 10)], "b2": [("t/b", 600), ("t/c", 50)], "b3": [("t/a", 10)]}
    planned = plan(Cluster(brokers, bundles(placed), policies))
    assert [step.bundle.rpartition("/")[0] for step in planned.steps] == ["t/c"]
    assert planned.plan.bounds.moves == 1


def test_load_that_a_broker_of_unknown_limit_could_take_does_not_raise_the_peak() -> None:
    # b1: 300, b2: 300 | b3 of unknown cpu: nothing
    brokers = (broker("b1"), broker("b2"), broker("b3", limits=(0, 1000, 1000)))
    cluster = Cluster(brokers, bundles({"b1": [("t/a", 300)], "b2": [("t/b", 300)]}))
    problem = build_problem("b1:8080", cluster.brokers, cluster.bundles, cluster.policies, SETTINGS)
    assert find_band(problem, SETTINGS).peak_ppb == (300_000_000, 200_000_000, 200_000_000)
    assert certify(search(problem, SETTINGS)).peak_ppb == (0, 200_000_000, 200_000_000)


def test_fewest_moves_are_those_of_plans_without_the_split_too() -> None:
    # b1: 400, 200, 200 | b2: nothing -> the 400 moves; cut in halves, it takes two moves
    placed = {"b1": [("t/a", 400, 8), ("t/b", 200, 2), ("t/c", 200, 2)]}
    cluster = Cluster((broker("b1"), broker("b2")), split_bundles(placed))
    whole, cut = plan(cluster).plan, plan(cluster, None, [split_candidate("t/a")]).plan
    assert (whole.step_counts.transfers, cut.step_counts.transfers) == (1, 2)
    assert (whole.bounds.moves, cut.bounds.moves) == (1, 1)
    assert cut.bounds.sessions <= whole.bounds.sessions
    assert cut.curve[-1].least_moves == 1


def test_overlapping_classes_raise_the_floor_above_even_spread() -> None:
    # 90 only on b0, 10 on b0 or b1: the peak is 90 of 100, not 50
    eligible = np.array([[True, False], [True, True]])
    assert lowest_peak(np.array([90, 10]), eligible, np.array([100, 100])) == 900_000_000


def test_classes_that_chain_are_solved_together() -> None:
    # 60 on b0 b1, 60 on b1 b2, 30 on b2: spread evenly, 50 each
    eligible = np.array([[True, True, False], [False, True, True], [False, False, True]])
    peak = lowest_peak(np.array([60, 60, 30]), eligible, np.array([100, 100, 100]))
    assert peak == pytest.approx(500_000_000, abs=20)


def test_fewest_bundles_takes_the_largest_first() -> None:
    load = np.array([5, 40, 10, 30])
    assert [fewest_bundles(load, excess) for excess in (1, 40, 41, 70, 71, 999)] == [1, 1, 2, 2, 3, 4]


def test_cheapest_part_cuts_bundles_at_will() -> None:
    assert cheapest_part(np.array([100, 100]), np.array([10, 100]), 150) == 60


def test_cheapest_part_of_too_little_load_is_all_of_it() -> None:
    assert cheapest_part(np.array([100, 0]), np.array([10, 7]), 150) == 10
