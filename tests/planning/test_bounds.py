"""Bounds hold for every plan: compared with all placements of tiny clusters."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest

from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.bounds import cheapest_sessions, fewest_bundles, find_bounds
from evenkeel.planning.floors import PPB, find_band, lowest_peak
from evenkeel.planning.problem import PoolProblem, build_problem
from support.clusters import broker, bundles, isolation

SETTINGS = Settings(tolerance=0.3)
N_BROKERS, N_BUNDLES = 3, 7


def tiny_problem(seed: int) -> PoolProblem:
    """Three brokers, seven bundles; on odd seeds two classes that share a broker."""
    chance = random.Random(seed)
    placed: dict[str, list[tuple[str, tuple[int, int, int]]]] = {f"b{i}": [] for i in range(N_BROKERS)}
    for _ in range(N_BUNDLES):
        load = (chance.randint(1, 90), chance.randint(1, 90), chance.randint(1, 90))
        placed[f"b{int(chance.triangular(0, N_BROKERS, 0)) % N_BROKERS}"].append((chance.choice(["t/a", "t/b"]), load))
    both = (isolation("a", ["t/a"], ["b[01]"]), isolation("b", ["t/b"], ["b[12]"]))
    policies = Policies(isolation=both if seed % 2 else ())
    brokers = [broker(f"b{i}", chance.choice((1, 2))) for i in range(N_BROKERS)]
    return build_problem("b0:8080", brokers, bundles(placed), policies, SETTINGS)


def legal_placements(problem: PoolProblem) -> list[np.ndarray]:
    choices = [np.flatnonzero(row) for row in problem.eligible[problem.eligibility_class]]
    return [np.array(owner) for owner in itertools.product(*choices)]


@pytest.mark.parametrize("seed", range(30))
def test_no_placement_beats_the_bounds(seed: int) -> None:
    problem = tiny_problem(seed)
    band = find_band(problem, SETTINGS)
    bounds = find_bounds(problem, band)
    placements = legal_placements(problem)
    peaks = np.array([(problem.used(owner) / problem.limit).max(axis=0) for owner in placements]).min(axis=0)
    assert (np.array(band.peak_ppb) <= peaks * PPB + 1).all(), f"seed {seed}"
    inside = [owner for owner in placements if (problem.used(owner) <= band.cap).all()]
    for owner in inside:
        moved = owner != problem.owner
        assert bounds.moves <= moved.sum(), f"seed {seed}"
        assert bounds.sessions <= problem.sessions[moved].sum(), f"seed {seed}"
        assert (np.array(bounds.moved_load) <= problem.load[moved].sum(axis=0)).all(), f"seed {seed}"


def test_enough_tiny_clusters_have_a_placement_inside_the_band() -> None:
    reached = 0
    for seed in range(30):
        problem = tiny_problem(seed)
        cap = find_band(problem, SETTINGS).cap
        reached += any((problem.used(owner) <= cap).all() for owner in legal_placements(problem))
    assert reached >= 10


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


def test_cheapest_sessions_cuts_bundles_at_will() -> None:
    assert cheapest_sessions(np.array([100, 100]), np.array([10, 100]), 150) == 60
