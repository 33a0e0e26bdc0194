"""Runs the bench: plan quality first, with judges in parallel; times and memory last, when nothing else runs."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from rich.console import Console

from benchmarks.plan.cases import HUGE, LARGE, OBJECTIVES, Case, Size, read_cluster
from benchmarks.plan.judging import Judge, Verdict
from benchmarks.plan.planning import (
    TimedPlan,
    bench_settings,
    make_plan,
    make_plan_without_bounds,
    plan_in_separate_process,
    time_solver,
)
from benchmarks.plan.pulsar import PulsarShedders, ShedderRun
from benchmarks.plan.records import Comparison, Findings, JudgedPlan, OrderTrial, ScaleRun, Timing

TOLERANCE = 0.05
# The widest band that the settings allow; some shedders do not even reach that.
WIDEST_TOLERANCE = 10.0
REPETITIONS = 5
DEFAULT_OBJECTIVE = "balanced"
SCALE_SCENARIO = "multi"
SHUFFLE_SEED = 1


@dataclass(frozen=True, slots=True)
class Scope:
    """What to measure."""

    scenarios: tuple[str, ...]
    sizes: tuple[Size, ...]
    seeds: tuple[int, ...]
    with_timing: bool
    with_scale: bool

    @property
    def cases(self) -> list[Case]:
        return [Case(name, size, seed) for size in self.sizes for name in self.scenarios for seed in self.seeds]

    @property
    def timed_cases(self) -> list[Case]:
        """One seed of each scenario at the large size, and the case that the largest is compared with."""
        names = self.scenarios if self.with_timing and LARGE in self.sizes else ()
        compared = (SCALE_SCENARIO,) if self.with_scale else ()
        return [Case(name, LARGE, self.seeds[0]) for name in dict.fromkeys((*names, *compared))]

    @property
    def scale_cases(self) -> list[Case]:
        return [Case(SCALE_SCENARIO, HUGE, self.seeds[0])] if self.with_scale else []


class Progress:
    """A spinner with the current work on standard error, and a line for each finished piece."""

    def __init__(self, console: Console, pieces: int) -> None:
        self._console = console
        self._status = console.status("starting")
        self._pieces = pieces
        self._done = 0
        self._started_at_s = time.monotonic()

    def __enter__(self) -> Progress:
        self._status.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._status.stop()

    def doing(self, what: str) -> None:
        self._status.update(what)

    def done(self, what: str) -> None:
        """Count a finished piece and print it with the time since the start."""
        self._done += 1
        elapsed_s = round(time.monotonic() - self._started_at_s)
        clock = f"{elapsed_s // 60:3d}:{elapsed_s % 60:02d}"
        self._console.print(
            f"{clock}  {self._done}/{self._pieces}  {what}", highlight=False, markup=False, soft_wrap=True
        )


class Bench:
    """One run; `pulsar` is None if Pulsar's shedders are not to be compared."""

    def __init__(self, scope: Scope, generator: Path, judge: Judge, pulsar: PulsarShedders | None, jobs: int) -> None:
        self._scope = scope
        self._generator = generator
        self._judge = judge
        self._cache = judge.cache
        self._pulsar = pulsar
        self._jobs = jobs
        self._findings = Findings()

    @property
    def pieces(self) -> int:
        """How many pieces of work the progress display will count."""
        cases = len(self._scope.cases)
        return cases * (2 if self._pulsar else 1) + len(self._scope.timed_cases) + len(self._scope.scale_cases)

    def run(self, progress: Progress) -> Findings:
        """Measure everything; judges and shedders run while the next cluster is planned."""
        folders = {}
        for case in self._scope.cases:
            progress.doing(f"generating {case}")
            folders[case] = self._cache.cluster(case, self._generator)
        with _workers(self._jobs) as judges, _workers(self._jobs) as shedders:
            theirs = {
                case: shedders.submit(self._run_shedders, folder) for case, folder in folders.items() if self._pulsar
            }
            judged: list[Future[JudgedPlan]] = []
            for case, folder in folders.items():
                progress.doing(f"planning {case}")
                judged += self._plan_case(case, folder, judges)
                progress.done(f"planned {case}")
            compared: list[Future[Comparison]] = []
            for case, runs in theirs.items():
                progress.doing(f"waiting for Pulsar's shedders on {case}")
                compared += self._compare_case(case, folders[case], runs.result(), judges)
                progress.done(f"compared with Pulsar's shedders on {case}")
            progress.doing("waiting for the judge")
            self._findings.plans += [future.result() for future in judged]
            self._findings.comparisons += [future.result() for future in compared]
        self._measure_times(progress)
        self._measure_scale(progress)
        return self._findings

    def _plan_case(self, case: Case, folder: Path, judges: ThreadPoolExecutor) -> list[Future[JudgedPlan]]:
        cluster = read_cluster(folder)
        plans = {objective: make_plan(cluster, bench_settings(objective, TOLERANCE)) for objective in OBJECTIVES}
        if case.size == min(self._scope.sizes) and case.seed == self._scope.seeds[0]:
            again = make_plan(cluster.shuffled(SHUFFLE_SEED), bench_settings(DEFAULT_OBJECTIVE, TOLERANCE))
            self._findings.order_trials.append(OrderTrial(case, plans[DEFAULT_OBJECTIVE].plan_id, again.plan_id))
        return [
            judges.submit(self.judge_plan, case, folder, objective, TOLERANCE, plan)
            for objective, plan in plans.items()
        ]

    def _run_shedders(self, folder: Path) -> list[tuple[ShedderRun, Verdict]]:
        assert self._pulsar is not None
        return [(run, self._judge.judge(folder, run.steps, TOLERANCE)) for run in self._pulsar.run_all(folder)]

    def _compare_case(
        self, case: Case, folder: Path, theirs: Sequence[tuple[ShedderRun, Verdict]], judges: ThreadPoolExecutor
    ) -> list[Future[Comparison]]:
        """Plan once more for each configuration, with the balance that it reached as the band."""
        cluster = read_cluster(folder)
        compared = []
        for run, verdict in theirs:
            tolerance = min(max(verdict["worst_after"] - 1, 0.0), WIDEST_TOLERANCE)
            # The targets ask nothing about the bounds of another band.
            plan = make_plan_without_bounds(cluster, bench_settings("moves", tolerance))
            compared.append(judges.submit(self._compare, case, folder, run, verdict, tolerance, plan))
        return compared

    def _compare(
        self, case: Case, folder: Path, run: ShedderRun, verdict: Verdict, tolerance: float, plan: TimedPlan
    ) -> Comparison:
        return Comparison(
            case=case,
            configuration=run.configuration,
            cycles=run.cycles,
            unloads=run.unloads,
            repeat_unloads=run.repeat_unloads,
            verdict=verdict,
            ours=self.judge_plan(case, folder, "moves", tolerance, plan),
        )

    def judge_plan(self, case: Case, folder: Path, objective: str, tolerance: float, plan: TimedPlan) -> JudgedPlan:
        """Judge a plan, and judge it again with its splits carried out if it has any."""
        given_verdict = self._judge.judge(folder, plan.judged_steps(), tolerance)
        if not plan.boundaries:
            return JudgedPlan.of(case, objective, tolerance, plan, given_verdict)
        split = self._cache.split_cluster(folder, plan.boundaries)
        verdict = self._judge.judge(split, plan.judged_steps(with_splits=False), tolerance)
        return JudgedPlan.of(case, objective, tolerance, plan, given_verdict, verdict)

    def _measure_times(self, progress: Progress) -> None:
        for case in self._scope.timed_cases:
            progress.doing(f"timing {case}")
            folder = self._cache.cluster(case, self._generator)
            cluster = read_cluster(folder)
            decide_ms = tuple(self._pulsar.decide_ms(folder, REPETITIONS)) if self._pulsar else ()
            for objective in OBJECTIVES:
                settings = bench_settings(objective, TOLERANCE)
                solve_s = tuple(time_solver(cluster, settings) for _ in range(REPETITIONS))
                self._findings.timings.append(Timing(case, objective, solve_s, decide_ms))
            progress.done(f"timed {case}")

    def _measure_scale(self, progress: Progress) -> None:
        for case in self._scope.scale_cases:
            progress.doing(f"generating {case}")
            folder = self._cache.cluster(case, self._generator)
            progress.doing(f"planning {case} in a separate process")
            planned = plan_in_separate_process(folder, DEFAULT_OBJECTIVE, TOLERANCE)
            progress.doing(f"judging {case}")
            verdict = self._judge.judge(folder, planned.steps, TOLERANCE)
            self._findings.scale_runs.append(
                ScaleRun(case, DEFAULT_OBJECTIVE, planned.solve_s, planned.peak_rss_bytes, len(planned.steps), verdict)
            )
            progress.done(f"planned {case}")


@contextmanager
def _workers(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that wait for programs; after an error, pending work is cancelled."""
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
