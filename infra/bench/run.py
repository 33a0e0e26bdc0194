"""Runs the bench: quality first, by plans and judges side by side; times and memory last, when all else is quiet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.bench.cases import HUGE, LARGE, OBJECTIVES, Case, Size
from infra.bench.clusters import read_cluster
from infra.bench.given import GivenPrograms
from infra.bench.judging import Judge, Verdict
from infra.bench.narrator import Narrator
from infra.bench.planning import MadePlan, bench_settings, make_bare_plan, make_plan, time_solver
from infra.bench.pulsar import PulsarAnswer, PulsarShedders
from infra.bench.records import Comparison, JudgedPlan, OrderTrial, ScaleRun, Timing
from infra.bench.results import Findings
from infra.bench.scale import plan_in_own_process
from infra.bench.workroom import Workroom

TOLERANCE = 0.05
# The widest band that the settings allow; some shedders leave a cluster outside even of that.
WIDEST_TOLERANCE = 10.0
REPETITIONS = 5
DEFAULT_OBJECTIVE = "balanced"
SCALE_SCENARIO = "multi"
SHUFFLE_SEED = 1


@dataclass(frozen=True, slots=True)
class Scope:
    """What is to be measured."""

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
        """One seed of each scenario at the size that the target speaks of, and what the largest is compared with."""
        names = self.scenarios if self.with_timing and LARGE in self.sizes else ()
        compared = (SCALE_SCENARIO,) if self.with_scale else ()
        return [Case(name, LARGE, self.seeds[0]) for name in dict.fromkeys((*names, *compared))]

    @property
    def scale_cases(self) -> list[Case]:
        return [Case(SCALE_SCENARIO, HUGE, self.seeds[0])] if self.with_scale else []


class Bench:
    """One run; `pulsar` is None where Pulsar's columns are left out."""

    def __init__(
        self, scope: Scope, programs: GivenPrograms, workroom: Workroom, pulsar: PulsarShedders | None, jobs: int
    ) -> None:
        self._scope = scope
        self._programs = programs
        self._workroom = workroom
        self._judge = Judge(programs.judge, workroom)
        self._pulsar = pulsar
        self._jobs = jobs
        self._findings = Findings()

    @property
    def pieces(self) -> int:
        """How many pieces of work the narrator hears of."""
        cases = len(self._scope.cases)
        return cases * (2 if self._pulsar else 1) + len(self._scope.timed_cases) + len(self._scope.scale_cases)

    def run(self, narrator: Narrator) -> Findings:
        """Measure everything; judges and shedders work while the next cluster is planned."""
        folders = {}
        for case in self._scope.cases:
            narrator.doing(f"generating {case}")
            folders[case] = self._workroom.cluster(case, self._programs.generator)
        with _workers(self._jobs) as judges, _workers(self._jobs) as shedders:
            theirs = {
                case: shedders.submit(self._ask_pulsar, folder) for case, folder in folders.items() if self._pulsar
            }
            judged: list[Future[JudgedPlan]] = []
            for case, folder in folders.items():
                narrator.doing(f"planning {case}")
                judged += self._plan_case(case, folder, judges)
                narrator.done(f"planned {case}")
            compared: list[Future[Comparison]] = []
            for case, answers in theirs.items():
                narrator.doing(f"waiting for Pulsar's shedders on {case}")
                compared += self._compare_case(case, folders[case], answers.result(), judges)
                narrator.done(f"compared with Pulsar's shedders on {case}")
            narrator.doing("waiting for the judge")
            self._findings.plans += [future.result() for future in judged]
            self._findings.comparisons += [future.result() for future in compared]
        self._measure_times(narrator)
        self._measure_scale(narrator)
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

    def _ask_pulsar(self, folder: Path) -> list[tuple[PulsarAnswer, Verdict]]:
        assert self._pulsar is not None
        return [(answer, self._judge.judge(folder, answer.steps, TOLERANCE)) for answer in self._pulsar.answers(folder)]

    def _compare_case(
        self, case: Case, folder: Path, theirs: Sequence[tuple[PulsarAnswer, Verdict]], judges: ThreadPoolExecutor
    ) -> list[Future[Comparison]]:
        """Plan once more for each configuration, with the tolerance that it would have needed."""
        cluster = read_cluster(folder)
        compared = []
        for answer, verdict in theirs:
            tolerance = min(max(verdict["worst_after"] - 1, 0.0), WIDEST_TOLERANCE)
            # Nobody asks how far it is from the bounds of another band.
            plan = make_bare_plan(cluster, bench_settings("moves", tolerance))
            compared.append(judges.submit(self._compare, case, folder, answer, verdict, tolerance, plan))
        return compared

    def _compare(
        self, case: Case, folder: Path, answer: PulsarAnswer, verdict: Verdict, tolerance: float, plan: MadePlan
    ) -> Comparison:
        return Comparison(
            case=case,
            configuration=answer.configuration,
            cycles=answer.cycles,
            unloads=answer.unloads,
            repeat_unloads=answer.repeat_unloads,
            verdict=verdict,
            ours=self.judge_plan(case, folder, "moves", tolerance, plan),
        )

    def judge_plan(self, case: Case, folder: Path, objective: str, tolerance: float, plan: MadePlan) -> JudgedPlan:
        """Have a plan judged, and once more with its splits done if it has any."""
        given_verdict = self._judge.judge(folder, plan.judged_steps(), tolerance)
        if not plan.boundaries:
            return JudgedPlan.of(case, objective, tolerance, plan, given_verdict)
        divided = self._workroom.divided_cluster(folder, plan.boundaries)
        verdict = self._judge.judge(divided, plan.judged_steps(with_splits=False), tolerance)
        return JudgedPlan.of(case, objective, tolerance, plan, given_verdict, verdict)

    def _measure_times(self, narrator: Narrator) -> None:
        for case in self._scope.timed_cases:
            narrator.doing(f"timing {case}")
            folder = self._workroom.cluster(case, self._programs.generator)
            cluster = read_cluster(folder)
            decide_ms = tuple(self._pulsar.decide_ms(folder, REPETITIONS)) if self._pulsar else ()
            for objective in OBJECTIVES:
                settings = bench_settings(objective, TOLERANCE)
                solve_s = tuple(time_solver(cluster, settings) for _ in range(REPETITIONS))
                self._findings.timings.append(Timing(case, objective, solve_s, decide_ms))
            narrator.done(f"timed {case}")

    def _measure_scale(self, narrator: Narrator) -> None:
        for case in self._scope.scale_cases:
            narrator.doing(f"generating {case}")
            folder = self._workroom.cluster(case, self._programs.generator)
            narrator.doing(f"planning {case} in a process of its own")
            answer = plan_in_own_process(folder, DEFAULT_OBJECTIVE, TOLERANCE)
            narrator.doing(f"judging {case}")
            verdict = self._judge.judge(folder, answer.steps, TOLERANCE)
            self._findings.scale_runs.append(
                ScaleRun(case, DEFAULT_OBJECTIVE, answer.solve_s, answer.peak_rss_bytes, len(answer.steps), verdict)
            )
            narrator.done(f"planned {case}")


@contextmanager
def _workers(count: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that wait for programs; after an error, those that have not begun never do."""
    pool = ThreadPoolExecutor(count)
    try:
        yield pool
    finally:
        pool.shutdown(cancel_futures=True)
