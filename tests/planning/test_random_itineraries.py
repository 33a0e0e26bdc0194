"""Seeded random clusters: every itinerary passes the checker, and every refusal is true."""

from __future__ import annotations

import dataclasses
import random
from collections import Counter
from functools import cache

import pytest

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.load import RESOURCES
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import BrokerState
from evenkeel.planning.itinerary.results import CapacityRow, Itinerary, RefusalKind, RefusedItinerary, RestartRequest
from evenkeel.planning.problem.problem import limits_of
from evenkeel.planning.problem.receiving import Receivers
from support.clusters import Cluster, random_cluster
from support.restarts import plan_restart, scale_loads

SEEDS = range(40)
SETTINGS = Settings()


def make_restart(seed: int) -> tuple[Cluster, RestartRequest]:
    """A random cluster in which all brokers are known and nothing is excluded, and some brokers to restart."""
    chance = random.Random(seed)
    cluster = scale_loads(random_cluster(seed), chance.choice((0.3, 0.4, 0.6)))
    groups = cluster.policies.anti_affinity if seed % 2 else {}
    policies = dataclasses.replace(cluster.policies, excluded_namespaces=frozenset(), anti_affinity=groups)
    silent = (BrokerState.INACTIVE, BrokerState.INITIAL)
    brokers = tuple(
        dataclasses.replace(b, state=BrokerState.ACTIVE if b.state in silent else b.state) for b in cluster.brokers
    )
    names = sorted(b.broker_id for b in brokers)
    request = RestartRequest(None if seed % 4 == 0 else tuple(chance.sample(names, 3)))
    return dataclasses.replace(cluster, brokers=brokers, policies=policies), request


@cache
def planned(seed: int) -> Itinerary | RefusedItinerary:
    cluster, request = make_restart(seed)
    return plan_restart(cluster, SETTINGS, request)


def find_reach(cluster: Cluster) -> list[set[str]]:
    """For each bundle, the brokers that can ever own it; asks the filters of single moves."""
    receivers = Receivers(cluster.brokers, cluster.policies, SETTINGS)
    by_id = {b.broker_id: b for b in cluster.brokers}
    rows = cluster.bundles
    return [
        {owner}
        | {
            b.broker_id
            for b in cluster.brokers
            if not is_system_namespace(namespace) and receivers.find_refusal(namespace, by_id[owner], b) is None
        }
        for namespace, owner in zip(rows.namespace.tolist(), rows.owner.tolist(), strict=True)
    ]


def assert_row_is_true(cluster: Cluster, row: CapacityRow) -> None:
    resource = RESOURCES.index(row.resource)  # type: ignore[arg-type]
    places = [reach - {row.broker_id} for reach in find_reach(cluster)]
    loads = cluster.bundles.loads()[:, resource].tolist()
    inside = sum(load for load, where in zip(loads, places, strict=True) if where and where <= set(row.others))
    limits = {
        b.broker_id: int(limit[resource])
        for b, limit in zip(cluster.brokers, limits_of(cluster.brokers, SETTINGS), strict=True)
    }
    assert row.load == inside
    assert row.limit == sum(limits[name] for name in row.others)
    assert all(limits[name] > 0 for name in row.others)
    line = SETTINGS.broker_overloaded_threshold_percentage / 100
    assert row.holds == (inside <= line * row.limit) or abs(inside - line * row.limit) <= len(row.others)


@pytest.mark.parametrize("seed", SEEDS)
def test_any_cluster_gets_a_legal_itinerary_or_a_true_refusal(seed: int) -> None:
    # An itinerary has passed the checker in plan_restart.
    result = planned(seed)
    cluster, _ = make_restart(seed)
    if isinstance(result, Itinerary):
        assert result.bound.moves <= result.moves <= 2 * result.bound.departures, f"seed {seed}"
    else:
        assert result.refusals, f"seed {seed}"
        short = {row.broker_id for row in result.capacity.rows if not row.holds} if result.capacity else set()
        named = {refusal.broker_id for refusal in result.refusals if refusal.kind is RefusalKind.CAPACITY}
        assert named == short, f"seed {seed}"
    for row in result.capacity.rows if result.capacity else ():
        assert_row_is_true(cluster, row)


def test_random_clusters_show_itineraries_and_refusals_of_many_kinds() -> None:
    kinds: Counter[str] = Counter()
    for seed in SEEDS:
        result = planned(seed)
        kinds["itinerary" if isinstance(result, Itinerary) else result.refusals[0].kind] += 1
    print(dict(kinds))
    assert kinds["itinerary"] >= len(SEEDS) // 4
    assert kinds[RefusalKind.CAPACITY] > 0
    assert kinds[RefusalKind.NO_OTHER_BROKER] > 0


@pytest.mark.parametrize("seed", SEEDS[:8])
def test_itinerary_does_not_depend_on_the_order_of_the_rows(seed: int) -> None:
    cluster, request = make_restart(seed)
    assert plan_restart(cluster.shuffled(seed), SETTINGS, request) == planned(seed), f"seed {seed}"


@pytest.mark.parametrize("seed", range(6))
def test_brokers_of_equal_size_are_restarted_with_the_fewest_moves(seed: int) -> None:
    cluster = scale_loads(random_cluster(seed, n_brokers=10, n_bundles=400, is_varied=False), 0.6)
    result = plan_restart(cluster)
    assert isinstance(result, Itinerary), f"seed {seed}"
    owned = Counter(cluster.bundles.owner.tolist())
    fewest = min(owned[b.broker_id] for b in cluster.brokers)
    assert result.moves == result.bound.moves == len(cluster.bundles) + fewest, f"seed {seed}"
