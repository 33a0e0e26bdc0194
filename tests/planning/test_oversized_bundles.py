"""Bundles that no broker can carry inside the band: they stay, and other bundles make room."""

from __future__ import annotations

from evenkeel.model.settings import Settings
from evenkeel.planning.problem.band import find_band
from evenkeel.planning.problem.problem import pool_problems
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.prices import price_bundles
from evenkeel.planning.search.relief import place_oversized, relieve
from support.clusters import Cluster, broker, bundles

SETTINGS = Settings(objective="moves")


def test_others_leave_the_broker_of_an_oversized_bundle_which_stays() -> None:
    # b1: 800 and 20 × 9 | b2, b3: 100; nobody may carry more than 413
    placed = {"b1": [("t/huge", 800), *[("t/a", 9)] * 20], "b2": [("t/b", 100)], "b3": [("t/b", 100)]}
    cluster = Cluster((broker("b1"), broker("b2"), broker("b3")), bundles(placed))
    (problem,) = pool_problems(cluster.brokers, cluster.bundles, cluster.policies, SETTINGS)
    band = find_band(problem, SETTINGS)
    placement = Placement(problem, band, SETTINGS)
    prices = price_bundles(problem, placement.cap, SETTINGS)
    place_oversized(placement, SETTINGS.tolerance)
    least_price = relieve(placement, prices)
    # 980 are on b1; 800 and a tolerance of 40 may stay, so 16 × 9 have to leave.
    assert (placement.owner != problem.owner).sum() == 16
    assert placement.owner[problem.namespaces == "t/huge"] == problem.owner[problem.namespaces == "t/huge"]
    assert least_price == placement.price(prices), "the oversized bundle must not count as the cheapest to leave"
