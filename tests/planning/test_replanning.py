"""Replanning a few brokers at a time: the cheapest plan that the search passes is the result, every time the same."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenkeel.model.settings import Settings
from evenkeel.planning.problem.columns import Floats
from evenkeel.planning.problem.problem import pool_problems
from evenkeel.planning.search import replanning
from evenkeel.planning.search.optimiser import search
from evenkeel.planning.search.placement import Placement
from support.clusters import random_cluster

SETTINGS = Settings(objective="moves")
NEEDLESS_MOVES = 12
# No plan is near this, so the search uses all its samples.
NO_PRICE = 0.0


@pytest.fixture
def wasteful(monkeypatch: pytest.MonkeyPatch) -> tuple[Placement, Floats]:
    """A pool inside its band, with moves that it could do without, and what each bundle's move costs."""
    monkeypatch.setattr(replanning, "LARGE_POOL", dataclasses.replace(replanning.LARGE_POOL, samples_per_broker=3))
    cluster = random_cluster(1, n_brokers=12, n_bundles=240, is_varied=False)
    (problem,) = pool_problems(cluster.brokers, cluster.bundles, cluster.policies, SETTINGS)
    placement, wasted = search(problem, SETTINGS).placement, 0
    everyone = np.arange(len(problem.broker_ids))
    for row in np.flatnonzero(placement.owner == problem.owner):
        homes = np.flatnonzero(placement.fits(row[None], everyone)[0] & (everyone != problem.owner[row]))
        if len(homes) and wasted < NEEDLESS_MOVES:
            placement.move(int(row), int(homes[-1]))
            wasted += 1
    assert wasted == NEEDLESS_MOVES
    assert placement.shortfall() == 0.0
    # Prices that differ by less than the noise, so that the search also goes uphill.
    return placement, np.random.default_rng(1).uniform(1.0, 1.0 + replanning.PRICE_NOISE / 2, len(problem.bundles))


def test_needless_moves_are_found(wasteful: tuple[Placement, Floats]) -> None:
    placement, prices = wasteful
    before = placement.price(prices)
    assert replanning.improve(placement, prices, NO_PRICE, lambda: True)
    assert placement.price(prices) <= before - 0.9 * NEEDLESS_MOVES
    assert placement.shortfall() == 0.0


def test_walk_ends_at_the_cheapest_plan_that_it_saw(
    wasteful: tuple[Placement, Floats], monkeypatch: pytest.MonkeyPatch
) -> None:
    placement, prices = wasteful
    seen = [placement.price(prices)]
    replan = replanning.replan

    def watched(*arguments: object) -> None:
        replan(*arguments)  # type: ignore[arg-type]
        seen.append(placement.price(prices))

    monkeypatch.setattr(replanning, "replan", watched)
    # Its time is up just when it has gone uphill.
    assert not replanning.improve(placement, prices, NO_PRICE, lambda: seen[-1] == min(seen))
    assert seen[-1] > min(seen)
    assert placement.price(prices) == min(seen) < seen[0]


def test_same_pool_gives_the_same_plan(wasteful: tuple[Placement, Floats]) -> None:
    placement, prices = wasteful
    start = placement.owner.copy()
    replanning.improve(placement, prices, NO_PRICE, lambda: True)
    first = placement.owner.copy()
    placement.restore(start)
    replanning.improve(placement, prices, NO_PRICE, lambda: True)
    assert (placement.owner == first).all()


def test_no_time_leaves_the_plan_as_it_is(wasteful: tuple[Placement, Floats]) -> None:
    placement, prices = wasteful
    start = placement.owner.copy()
    assert not replanning.improve(placement, prices, NO_PRICE, lambda: False)
    assert (placement.owner == start).all()
