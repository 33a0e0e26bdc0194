"""Resources that are nearly idle cause no moves: the band never ends below `min_utilisation`."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.clusters.judge import DEFAULT_MIN_UTILISATION, raise_peaks
from evenkeel.model.settings import Settings
from evenkeel.planning.problem.band import find_band
from evenkeel.planning.problem.problem import pool_problems
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, broker, bundles, plan

TRIO = tuple(broker(f"b{number}") for number in (1, 2, 3))


def test_differences_on_a_nearly_idle_resource_cause_no_moves() -> None:
    # cpu is even at 30 %; of bandwidth in, b1 uses 4 % and the others nothing
    placed = {
        "b1": [("t/a", (100, 20, 0)), ("t/b", (200, 20, 0))],
        "b2": [("t/c", (300, 0, 0))],
        "b3": [("t/d", (300, 0, 0))],
    }
    cluster = Cluster(TRIO, bundles(placed))
    planned = plan(cluster)
    assert planned.steps == []
    assert planned.plan.bounds.moves == 0
    assert planned.plan.pools[0].reaches_band
    assert planned.plan.curve[0].worst < 1.05
    strict = plan(cluster, Settings(min_utilisation=0.0))
    assert strict.plan.bounds.moves > 0, "without the setting the same difference asks for a move"


def test_broker_far_above_an_idle_resource_is_brought_to_where_it_counts_as_idle() -> None:
    # b1 uses 20 % of everything and the others nothing: 6.7 % at best; of six brokers 3.3 %, where 5 % will do
    six = tuple(broker(f"b{number}") for number in range(1, 7))
    placed = {"b1": [(f"t/{number}", 10) for number in range(20)]}
    planned = plan(Cluster(six, bundles(placed)))
    assert {row.band_limit for row in planned.brokers} == {50}
    assert max(row.used_after for row in planned.brokers) == 50
    assert len(planned.steps) == planned.plan.bounds.moves == 15


@pytest.mark.parametrize("least", [0.0, 0.05, 0.2, 0.5])
def test_band_and_its_loose_form_end_no_lower_than_the_setting(least: float) -> None:
    cluster = Cluster(TRIO, bundles({"b1": [("t/a", (300, 100, 3))], "b2": [("t/b", (300, 2, 0))]}))
    settings = Settings(min_utilisation=least)
    (problem,) = pool_problems(cluster.brokers, cluster.bundles, cluster.policies, settings)
    band = find_band(problem, settings)
    assert (band.cap >= np.floor(least * problem.limit)).all()
    assert (band.loose_cap >= band.cap).all()
    expected = np.maximum(np.array(band.peak_ppb) / 1e9 * 1.05, least) * problem.limit
    assert (np.abs(band.cap - expected) <= 1).all()


def test_verifier_lets_a_nearly_idle_resource_rise_within_the_band() -> None:
    # the move off b1 balances cpu and raises bandwidth out of b2 from 1 % to 3 %
    placed = {"b1": [("t/a", (300, 0, 20)), ("t/b", (300, 0, 0))], "b2": [("t/c", (0, 0, 10))]}
    cluster = Cluster(TRIO[:2], bundles(placed))
    planned = plan(cluster)
    assert planned.steps
    assert find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, Settings()) == []


def test_judge_of_the_benchmarks_draws_the_same_line() -> None:
    peaks = np.array([[0.3, 0.01, 0.0]])
    assert raise_peaks(peaks, 0.05, 0.05).tolist() == [[0.3, 0.05 / 1.05, 0.0]]
    assert raise_peaks(peaks, 0.05, 0.0).tolist() == peaks.tolist()
    assert Settings().min_utilisation == DEFAULT_MIN_UTILISATION
