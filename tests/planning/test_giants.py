"""Bundles that no broker can carry inside the band: they keep their seat, and others make room."""

from __future__ import annotations

from evenkeel.model.settings import Settings
from evenkeel.planning.floors import find_band
from evenkeel.planning.in_process import pool_problems
from evenkeel.planning.search.giants import seat_giants
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.prices import price_bundles
from evenkeel.planning.search.relief import relieve
from support.clusters import Cluster, broker, bundles

SETTINGS = Settings(objective="moves")


def test_others_leave_the_broker_of_a_giant_and_the_giant_is_not_asked() -> None:
    # b1: 800 and 20 × 9 | b2, b3: 100; nobody may carry more than 413
    placed = {"b1": [("t/giant", 800), *[("t/a", 9)] * 20], "b2": [("t/b", 100)], "b3": [("t/b", 100)]}
    cluster = Cluster((broker("b1"), broker("b2"), broker("b3")), bundles(placed))
    (problem,) = pool_problems(cluster.brokers, cluster.bundles, cluster.policies, SETTINGS)
    band = find_band(problem, SETTINGS)
    placement = Placement(problem, band, SETTINGS)
    prices = price_bundles(problem, placement.cap, SETTINGS)
    seat_giants(placement, SETTINGS.tolerance)
    least_price = relieve(placement, prices)
    # 980 are on b1; 800 and a tolerance of 40 may stay, so 16 × 9 have to leave.
    assert (placement.owner != problem.owner).sum() == 16
    assert placement.owner[problem.namespaces == "t/giant"] == problem.owner[problem.namespaces == "t/giant"]
    assert least_price == placement.price(prices), "a giant that finds no place would have seemed the cheapest to go"
