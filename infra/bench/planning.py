"""Our side: a cluster planned in this process, without Spark, and the time that it took."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from evenkeel import __version__
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.assembly import PlanContext, assemble
from evenkeel.planning.in_process import find_large_bundles, solve_cluster
from evenkeel.planning.pool_plan import PoolBounds, PoolPlan
from evenkeel.planning.search.optimiser import Certifier, certify
from evenkeel.planning.search.solution import Solution
from infra.bench.cases import HUGE
from infra.bench.clusters import TAKEN_AT, Cluster

# The figures ask how few moves suffice, so no budget may cut a plan short.
NO_STEP_LIMIT = HUGE.bundles
_NO_BOUNDS = PoolBounds(0, 0, (0, 0, 0), (0, 0, 0), (0, 0, 0))


@dataclass(frozen=True, slots=True)
class MadePlan:
    """A plan as the product would store it, and the seconds from the cluster to it."""

    plan_id: str
    steps: Sequence[Step]
    bounds: Mapping[str, Any]
    client_seconds: float
    seconds: float

    @property
    def boundaries(self) -> dict[str, int]:
        """Where the plan cuts the bundles that it splits."""
        return {step.bundle: step.split_boundary for step in self.steps if step.split_boundary is not None}

    def judged_steps(self, *, with_splits: bool = True) -> list[dict[str, Any]]:
        """What the judge looks at, with the splits, which it counts, or for a cluster in which they are done."""
        return [
            {"kind": step.kind, "bundle": step.bundle, "source": step.source, "destination": step.destination}
            for step in self.steps
            if with_splits or step.kind != StepKind.SPLIT
        ]


def bench_settings(objective: str, tolerance: float) -> Settings:
    """All defaults but these, and no budget."""
    return Settings.from_json({"objective": objective, "tolerance": tolerance, "max_steps": NO_STEP_LIMIT})


def make_plan(cluster: Cluster, settings: Settings) -> MadePlan:
    """Plan all pools and put their plans together."""
    return _make_plan(cluster, settings, certify)


def make_bare_plan(cluster: Cluster, settings: Settings) -> MadePlan:
    """The same plan without certificate: its bounds are 0."""
    return _make_plan(cluster, settings, _leave_uncertified)


def time_solver(cluster: Cluster, settings: Settings) -> float:
    """Seconds from the cluster to the plans of all pools, moves and reasons included, the certificate not."""
    started_at_s = time.perf_counter()
    _solve(cluster, settings, _leave_uncertified)
    return time.perf_counter() - started_at_s


def _make_plan(cluster: Cluster, settings: Settings, certifier: Certifier) -> MadePlan:
    started_at_s = time.perf_counter()
    planned = assemble(_solve(cluster, settings, certifier), _context(settings))
    return MadePlan(
        plan_id=planned.plan.plan_id,
        steps=planned.steps,
        bounds=planned.plan.bounds,
        client_seconds=planned.plan.disruption["client_seconds"],
        seconds=time.perf_counter() - started_at_s,
    )


def _solve(cluster: Cluster, settings: Settings, certifier: Certifier) -> list[PoolPlan]:
    parts = (cluster.brokers, cluster.bundles, cluster.policies, settings)
    return solve_cluster(*parts, find_large_bundles(*parts), certifier)


def _leave_uncertified(_: Solution) -> PoolBounds:
    return _NO_BOUNDS


def _context(settings: Settings) -> PlanContext:
    return PlanContext(
        cluster="bench",
        load_manager="imported",
        snapshot_id="bench",
        taken_at=TAKEN_AT,
        profile_id="bench",
        candidates_id="bench",
        strategy="certified",
        settings=settings,
        policy_versions={},
        library_version=__version__,
    )
