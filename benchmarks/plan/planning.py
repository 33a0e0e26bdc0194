"""Evenkeel's side: plan a cluster without Spark, in this process or in one of its own, and take the time."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.plan.cache import run_program
from benchmarks.plan.cases import HUGE, TAKEN_AT, Cluster, read_cluster
from evenkeel import __version__
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import PlanContext, assemble
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.pool.planner import Certifier, plan_pools
from evenkeel.planning.search.bounds import PoolBounds, certify
from evenkeel.planning.search.placement import Solution
from evenkeel.planning.splitting.choice import find_large_bundles

PROJECT = Path(__file__).resolve().parents[2]
# The figures ask how few moves suffice, so no budget may cut a plan short.
NO_STEP_LIMIT = HUGE.bundles
KIB = 1024
_NO_BOUNDS = PoolBounds(0, 0, (0, 0, 0), (0, 0, 0), (0, 0, 0))


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """A plan as the product would store it, and the seconds that it took."""

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
        """The judge's input; leave the splits out for a cluster whose bundles are split already."""
        return [
            {"kind": step.kind, "bundle": step.bundle, "source": step.source, "destination": step.destination}
            for step in self.steps
            if with_splits or step.kind != StepKind.SPLIT
        ]


def bench_settings(objective: str, tolerance: float) -> Settings:
    """Defaults except for these, and no budget."""
    return Settings.from_json({"objective": objective, "tolerance": tolerance, "max_steps": NO_STEP_LIMIT})


def make_plan(cluster: Cluster, settings: Settings) -> TimedPlan:
    """Plan all pools and merge their plans."""
    return _make_plan(cluster, settings, certify)


def make_plan_without_bounds(cluster: Cluster, settings: Settings) -> TimedPlan:
    """The same plan without a certificate: its bounds are 0."""
    return _make_plan(cluster, settings, _skip_bounds)


def time_solver(cluster: Cluster, settings: Settings) -> float:
    """Seconds from the cluster to the plans of all pools, with moves and reasons, without the certificate."""
    started_at_s = time.perf_counter()
    _solve(cluster, settings, _skip_bounds)
    return time.perf_counter() - started_at_s


def _make_plan(cluster: Cluster, settings: Settings, certifier: Certifier) -> TimedPlan:
    started_at_s = time.perf_counter()
    planned = assemble(_solve(cluster, settings, certifier), _context(settings))
    return TimedPlan(
        plan_id=planned.plan.plan_id,
        steps=planned.steps,
        bounds=planned.plan.to_json()["bounds"],
        client_seconds=planned.plan.disruption.client_seconds,
        seconds=time.perf_counter() - started_at_s,
    )


def _solve(cluster: Cluster, settings: Settings, certifier: Certifier) -> list[PoolPlan]:
    parts = (cluster.brokers, cluster.bundles, cluster.policies, settings)
    return plan_pools(*parts, find_large_bundles(*parts), certifier=certifier)


def _skip_bounds(_: Solution) -> PoolBounds:
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
        anti_affinity={},
        library_version=__version__,
    )


@dataclass(frozen=True, slots=True)
class SeparateRun:
    """What a planning process reports about itself."""

    solve_s: float
    peak_rss_bytes: int
    steps: list[dict[str, Any]]


def plan_in_separate_process(folder: Path, objective: str, tolerance: float) -> SeparateRun:
    """Plan in a process that does nothing else, to measure its memory; runs this module as a program."""
    with TemporaryDirectory() as temporary:
        out = Path(temporary) / "run.json"
        command = [sys.executable, "-m", __name__, folder.resolve(), objective, repr(tolerance), out]
        run_program(command, f"planning {folder.name} in a separate process", PROJECT)
        return SeparateRun(**json.loads(out.read_text()))


def measure_peak_rss_bytes() -> int:
    """The most memory that this process has had so far."""
    status = Path("/proc/self/status")
    if status.exists():
        # getrusage would include the parent's memory at the time of the fork.
        lines = dict(line.split(":", 1) for line in status.read_text().splitlines())
        return int(lines["VmHWM"].split()[0]) * KIB
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else KIB)


def main(folder: str, objective: str, tolerance: str, out: str) -> None:
    cluster, settings = read_cluster(Path(folder)), bench_settings(objective, float(tolerance))
    solve_s = time_solver(cluster, settings)
    plan = make_plan(cluster, settings)
    run = SeparateRun(solve_s, measure_peak_rss_bytes(), plan.judged_steps())
    Path(out).write_text(json.dumps(asdict(run)))


if __name__ == "__main__":
    main(*sys.argv[1:])
