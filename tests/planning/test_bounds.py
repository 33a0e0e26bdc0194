"""Bounds hold for every plan: compared with all placements of tiny clusters."""

from __future__ import annotations

import dataclasses
import itertools
import random

import numpy as np
import pytest

from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.arrays import UNLIMITED
from evenkeel.planning.floors import PPB, find_band, lowest_peak
from evenkeel.planning.problem import PoolProblem, build_problem
from evenkeel.planning.search.bounds import find_bounds
from evenkeel.planning.search.knapsack import cheapest_part, fewest_bundles
from support.clusters import broker, bundles, isolation

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


def placements_inside(problem: PoolProblem, cap: np.ndarray) -> list[np.ndarray]:
    """Every legal placement that leaves no broker above its cap and none where it may not stay."""
    allowed = problem.destinations(np.arange(len(problem.bundles)))
    found = []
    for owner in itertools.product(*[np.flatnonzero(row) for row in allowed]):
        used = problem.used(np.array(owner))
        if (used <= cap)[~problem.must_be_emptied].all():
            found.append(np.array(owner))
    return found


@pytest.mark.parametrize("seed", range(60))
def test_no_placement_beats_the_bounds(seed: int) -> None:
    problem = tiny_problem(seed)
    band = find_band(problem, SETTINGS)
    # Figures of a plan far above all bounds, so that the whole pool's program is asked too.
    bounds = find_bounds(problem, band, UNLIMITED, UNLIMITED)
    for owner in placements_inside(problem, band.loose_cap):
        moved = owner != problem.owner
        assert bounds.moves <= moved.sum(), f"seed {seed}"
        assert bounds.sessions <= problem.sessions[moved].sum(), f"seed {seed}"
        assert (np.array(bounds.moved_load) <= problem.load[moved].sum(axis=0)).all(), f"seed {seed}"


@pytest.mark.parametrize("seed", range(60))
def test_no_placement_has_a_lower_peak_than_the_bound(seed: int) -> None:
    problem = tiny_problem(seed)
    band = find_band(problem, SETTINGS)
    anywhere = np.full_like(problem.limit, UNLIMITED)
    stays = ~problem.must_be_emptied
    peaks = [(problem.used(owner) / problem.limit)[stays].max(axis=0) for owner in placements_inside(problem, anywhere)]
    assert peaks, f"seed {seed}"
    assert (np.array(band.peak_ppb) <= np.min(peaks, axis=0) * PPB + 1).all(), f"seed {seed}"


def test_bounds_of_tiny_clusters_are_mostly_exact() -> None:
    exact = reached = 0
    for seed in range(60):
        problem = tiny_problem(seed)
        band = find_band(problem, SETTINGS)
        moved = [owner != problem.owner for owner in placements_inside(problem, band.loose_cap)]
        if moved:
            reached += 1
            bounds = find_bounds(problem, band, UNLIMITED, UNLIMITED)
            exact += bounds.moves == min(rows.sum() for rows in moved)
            exact += bounds.sessions == min(problem.sessions[rows].sum() for rows in moved)
    assert reached >= 20
    assert exact >= 1.8 * reached


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
