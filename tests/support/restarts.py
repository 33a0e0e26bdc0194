"""Clusters for tests of rolling restarts, and the way from a cluster to a judged itinerary."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

from evenkeel.model.settings import Settings
from evenkeel.planning.itinerary.checker import verify_itinerary
from evenkeel.planning.itinerary.planner import ALL_BROKERS, plan_itinerary
from evenkeel.planning.itinerary.restart_problem import RestartProblem, build_restart_problem
from evenkeel.planning.itinerary.results import Itinerary, RefusedItinerary, RestartRequest
from support.clusters import Cluster, broker, bundles

LIMIT = 100_000_000


def even_cluster(seed: int, n_brokers: int, n_bundles: int, utilisation: float, sizes: Sequence[int] = (1,)) -> Cluster:
    """A cluster whose brokers are about as full as each other, with bundles of very different loads."""
    chance = random.Random(seed)
    limits = [chance.choice(sizes) * LIMIT for _ in range(n_brokers)]
    shapes = [chance.lognormvariate(0, 1) for _ in range(n_bundles)]
    shares = sorted(([shape * chance.lognormvariate(0, 0.5) for _ in range(3)] for shape in shapes), key=max)
    units = [utilisation * sum(limits) / sum(share[resource] for share in shares) for resource in range(3)]
    used = [[0, 0, 0] for _ in limits]
    placed: dict[str, list[tuple[str, tuple[int, int, int]]]] = {f"b{row:02d}": [] for row in range(n_brokers)}
    for share in reversed(shares):
        cpu, rate_in, rate_out = (int(part * unit) for part, unit in zip(share, units, strict=True))
        load = (cpu, rate_in, rate_out)
        fullness = [
            max((u + part) / limit for u, part in zip(used[row], load, strict=True)) + chance.random() * 0.05
            for row, limit in enumerate(limits)
        ]
        row = fullness.index(min(fullness))
        used[row] = [u + part for u, part in zip(used[row], load, strict=True)]
        placed[f"b{row:02d}"].append((f"t/ns{chance.randrange(40)}", load))
    brokers = tuple(broker(f"b{row:02d}", limits=(limit,) * 3) for row, limit in enumerate(limits))
    return Cluster(brokers, bundles(placed))


def scale_loads(cluster: Cluster, factor: float) -> Cluster:
    """The same cluster with every load multiplied."""
    rows = cluster.bundles
    scaled = {
        name: (getattr(rows, name) * factor).astype(int)
        for name in ("cpu_millipercent", "throughput_in", "throughput_out")
    }
    return dataclasses.replace(cluster, bundles=dataclasses.replace(rows, **scaled))


def problem_of(cluster: Cluster, settings: Settings, request: RestartRequest = ALL_BROKERS) -> RestartProblem:
    return build_restart_problem(cluster.brokers, cluster.bundles, cluster.policies, settings, request)


def plan_restart(
    cluster: Cluster, settings: Settings | None = None, request: RestartRequest = ALL_BROKERS
) -> Itinerary | RefusedItinerary:
    """Plan and, if there is an itinerary, have it judged."""
    settings = settings or Settings()
    planned = plan_itinerary(cluster.brokers, cluster.bundles, cluster.policies, settings, request)
    if isinstance(planned, Itinerary):
        assert verify_itinerary(problem_of(cluster, settings, request), planned, settings) == []
    return planned


def must_plan(cluster: Cluster, settings: Settings | None = None, request: RestartRequest = ALL_BROKERS) -> Itinerary:
    planned = plan_restart(cluster, settings, request)
    assert isinstance(planned, Itinerary), planned.error()
    return planned


def must_refuse(
    cluster: Cluster, settings: Settings | None = None, request: RestartRequest = ALL_BROKERS
) -> RefusedItinerary:
    planned = plan_restart(cluster, settings, request)
    assert isinstance(planned, RefusedItinerary)
    return planned
