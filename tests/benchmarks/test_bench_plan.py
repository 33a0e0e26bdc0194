"""The plan bench: its figures, and that it reports bad plans as misses."""

from __future__ import annotations

import dataclasses
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks.plan.cache import Cache
from benchmarks.plan.cases import OBJECTIVES, Case, Size, read_cluster
from benchmarks.plan.judging import OWN_GENERATOR, OWN_JUDGE, Judge, Verdict, require_program
from benchmarks.plan.planning import (
    PROJECT,
    TimedPlan,
    bench_settings,
    make_plan,
    make_plan_without_bounds,
    plan_in_separate_process,
)
from benchmarks.plan.records import Comparison, Findings, JudgedPlan, ScaleRun, Timing
from benchmarks.plan.rows import find_misses
from benchmarks.plan.run import Bench, Scope
from benchmarks.plan.tables import MOST_MISSES_SHOWN
from benchmarks.plan.targets import GIB, Results, to_json
from evenkeel.model.errors import InputError

CASE = Case("skew", Size(6, 96), 1)
TOLERANCE = 0.05


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Judge:
    return Judge(OWN_JUDGE, Cache(tmp_path_factory.mktemp("bench")))


@pytest.fixture(scope="module")
def folder(judge: Judge) -> Path:
    return judge.cache.cluster(CASE, OWN_GENERATOR)


@pytest.fixture(scope="module")
def plan(folder: Path) -> TimedPlan:
    return make_plan(read_cluster(folder), bench_settings("moves", TOLERANCE))


@pytest.fixture(scope="module")
def judged(judge: Judge, folder: Path, plan: TimedPlan) -> JudgedPlan:
    return JudgedPlan.of(CASE, "moves", TOLERANCE, plan, judge.judge(folder, plan.judged_steps(), TOLERANCE))


def run_bench(*options: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks.plan", "--scenario", CASE.scenario, "--size", "6x96", "--seed", "1"]
    words = [*command, "--without-pulsar", *map(str, options)]
    return subprocess.run(words, cwd=PROJECT, capture_output=True, text=True, check=False)


def misses_of(**findings: Any) -> set[tuple[str, str]]:
    return {(miss.subject, miss.name) for miss in find_misses(Results.of(Findings(**findings)).rows)}


def with_verdict(plan: JudgedPlan, **changes: Any) -> JudgedPlan:
    changed = {**plan.verdict, **changes}
    return dataclasses.replace(plan, given_verdict=changed, verdict=changed)


def test_quick_bench_writes_its_figures_and_ends_with_the_verdict(tmp_path: Path) -> None:
    """With another judge, which leaves a mark and passes the work on to the bench's own."""
    mark, other_judge = tmp_path / "mark", tmp_path / "judge.py"
    lines = ("import pathlib, runpy", f"pathlib.Path({str(mark)!r}).touch()")
    other_judge.write_text("\n".join((*lines, f"runpy.run_path({str(OWN_JUDGE)!r}, run_name='__main__')")))
    done = run_bench("--work", tmp_path, "--judge", other_judge)
    assert mark.exists(), done.stderr
    document = json.loads((tmp_path / "plan.json").read_text())
    assert done.returncode == (0 if document["ok"] else 1), done.stderr
    assert {row["objective"] for row in document["distance"]} == set(OBJECTIVES)
    for row in document["distance"]:
        assert row["moves_ratio"].keys() == {"value", "target", "relation", "ok"}
        assert row["moves"] >= row["moves_bound"] > 0
    assert [row["illegal"]["value"] for row in document["rules"]] == [0, 0, 0]
    assert [row["other_plan_ids"]["value"] for row in document["row_order"]] == [0]
    assert len(document["plans"]) == len(OBJECTIVES)
    assert all(plan["verdict"]["moves"] == plan["moves"] for plan in document["plans"])
    assert f"{document['targets']} figures with a target" in done.stdout
    shown = min(len(document["missed"]), MOST_MISSES_SHOWN)
    assert sum(line.startswith("MISSED ") for line in done.stdout.splitlines()) == shown
    assert max(len(line) for line in done.stdout.splitlines() if "Written to" not in line) <= 100


def test_illegal_step_is_missed(judge: Judge, folder: Path, plan: TimedPlan) -> None:
    """A step that names an owner which the bundle does not have, and moves a bundle for the second time."""
    again = dataclasses.replace(plan.steps[0], order=len(plan.steps))
    bad = dataclasses.replace(plan, steps=[*plan.steps, again])
    verdict = judge.judge(folder, bad.judged_steps(), TOLERANCE)
    missed = misses_of(plans=[JudgedPlan.of(CASE, "moves", TOLERANCE, bad, verdict)])
    assert {("skew 6×96 moves", "illegal"), ("skew 6×96 moves", "moved_twice")} <= missed


def test_plan_that_leaves_the_cluster_as_it_is_misses_the_band(judge: Judge, folder: Path, plan: TimedPlan) -> None:
    idle = dataclasses.replace(plan, steps=[])
    verdict = judge.judge(folder, [], TOLERANCE)
    missed = misses_of(plans=[JudgedPlan.of(CASE, "moves", TOLERANCE, idle, verdict)])
    assert ("skew 6×96 moves", "worst_after") in missed


def test_plan_that_splits_is_judged_on_files_in_which_the_split_is_done(
    judge: Judge, folder: Path, tmp_path: Path
) -> None:
    """One bundle carries 1.2 times what a broker may inside the band, so that no moves alone would do."""
    lines = [line.split(",") for line in (folder / "bundles.csv").read_text().splitlines()]
    giant, throughput = lines[1], lines[0].index("throughput_in")
    share = sum(float(line[throughput]) for line in lines[2:]) / (CASE.size.brokers / (1 + TOLERANCE) / 1.2 - 1)
    factor = share / float(giant[throughput])
    for name in ("msg_rate_in", "msg_rate_out", "throughput_in", "throughput_out"):
        giant[lines[0].index(name)] = repr(float(giant[lines[0].index(name)]) * factor)
    giant[lines[0].index("topics")] = "3"
    for name in ("brokers.csv", "policies.json"):
        shutil.copyfile(folder / name, tmp_path / name)
    (tmp_path / "bundles.csv").write_text("\n".join(",".join(line) for line in lines) + "\n")
    cluster = read_cluster(tmp_path)
    # cpu is what brokers measured; only bandwidth counts here
    settings = dataclasses.replace(bench_settings("moves", TOLERANCE), cpu_resource_weight=0.0)
    plan = make_plan(cluster, settings)
    assert list(plan.boundaries) == [giant[0]]
    bench = Bench(Scope((), (), (), with_timing=False, with_scale=False), OWN_GENERATOR, judge, None, 1)
    judged = bench.judge_plan(CASE, tmp_path, "moves", TOLERANCE, plan)
    assert (judged.splits, judged.moves) == (1, len(plan.steps) - 1)
    bandwidth = slice(1, 3)
    assert max(judged.given_verdict["peak_over_bound_after"][bandwidth]) > 1.2
    assert max(judged.verdict["peak_over_bound_after"][bandwidth]) <= 1.051
    assert judged.verdict["illegal_count"] == 0


def test_figure_is_the_median_of_the_seeds_and_no_seed_may_lie_far_above_it(judged: JudgedPlan) -> None:
    bound = 1000
    plans = [
        dataclasses.replace(with_verdict(judged, moves_lower_bound=bound), moves=moves) for moves in (1000, 1010, 1070)
    ]
    row = Results.of(Findings(plans=plans)).distances[0]
    assert (row.moves_ratio.value, row.moves_ratio.is_met) == (1.01, True)
    assert (row.worst_moves_ratio.value, row.worst_moves_ratio.is_met) == (1.07, False)


def test_own_bound_below_the_judges_is_missed(judged: JudgedPlan) -> None:
    weak = with_verdict(
        judged,
        moves_lower_bound=judged.own_bounds["moves"] + 1,
        sessions_lower_bound=judged.own_bounds["sessions"] + 0.2,
    )
    names = {name for _, name in misses_of(plans=[weak])}
    assert {"own_moves_bound_lead", "own_sessions_bound_lead"} <= names


def test_bound_is_the_higher_of_the_judges_and_ours(judged: JudgedPlan) -> None:
    own = int(judged.own_bounds["moves"])
    assert with_verdict(judged, moves_lower_bound=own + 5).moves_bound == own + 5
    assert with_verdict(judged, moves_lower_bound=own - 5).moves_bound == own


@pytest.mark.parametrize(("unloads", "is_missed"), [(0, True), (1, False)])
def test_plan_must_need_fewer_moves_than_pulsar_unloads(judged: JudgedPlan, unloads: int, is_missed: bool) -> None:
    theirs = Comparison(CASE, "AvgShedder", 9, judged.moves + unloads, 0, judged.verdict, judged)
    assert (("skew 6×96 AvgShedder", "moves_beyond_unloads") in misses_of(comparisons=[theirs])) == is_missed


def test_plan_that_ends_less_balanced_than_pulsar_is_no_match(judged: JudgedPlan) -> None:
    worse = judged.verdict["worst_after"] - 0.01
    theirs: Verdict = {**judged.verdict, "worst_after": worse}
    comparison = Comparison(CASE, "AvgShedder", 9, judged.moves + 1, 0, theirs, judged)
    assert ("skew 6×96 AvgShedder", "our_worst_beyond_theirs") in misses_of(comparisons=[comparison])


def test_medians_of_the_times_are_compared(judged: JudgedPlan) -> None:
    case = Case("multi", Size(200, 40_000), 1)
    timing = Timing(case, "balanced", (9.0, 1.0, 1.1, 1.2, 9.0), (1000.0, 1100.0, 1150.0, 9000.0, 20.0))
    huge = ScaleRun(Case("multi", Size(1000, 1_000_000), 1), "balanced", 73.0, GIB, 5, judged.verdict)
    missed = misses_of(timings=[timing], scale_runs=[huge])
    assert missed == {
        ("multi 200×40,000 balanced", "time_over_pulsar"),
        ("multi 1,000×1,000,000 balanced", "time_over_large"),
    }


def test_ratio_to_a_bound_of_zero_is_missed_and_still_json(judged: JudgedPlan) -> None:
    groundless = dataclasses.replace(
        with_verdict(judged, moves_lower_bound=0), own_bounds={**judged.own_bounds, "moves": 0}
    )
    findings = Findings(plans=[groundless])
    document = json.loads(json.dumps(to_json(findings, Results.of(findings), {}), allow_nan=False))
    assert not document["ok"]
    assert document["distance"][0]["moves_ratio"] == {
        "value": None,
        "target": 1.03,
        "relation": "at most",
        "ok": False,
    }


def test_program_that_is_not_there_is_refused_by_the_name_of_its_option(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--judge .*none.py is not a file"):
        require_program(tmp_path / "none.py", "--judge")


def test_failing_program_is_reported_with_its_last_line(tmp_path: Path) -> None:
    (tmp_path / "generator.py").write_text("raise SystemExit('no cluster today')")
    done = run_bench("--work", tmp_path / "work", "--generator", tmp_path / "generator.py")
    assert done.returncode == 1
    assert "generating skew 6×96 seed 1 failed with exit code 1 (no cluster today)" in done.stderr


def test_separate_process_makes_the_same_plan_and_reports_its_memory(folder: Path, plan: TimedPlan) -> None:
    run = plan_in_separate_process(folder, "moves", TOLERANCE)
    assert run.steps == plan.judged_steps()
    assert run.peak_rss_bytes > 2**20
    assert run.solve_s > 0


def test_plan_without_bounds_has_the_same_steps(folder: Path, plan: TimedPlan) -> None:
    bare = make_plan_without_bounds(read_cluster(folder), bench_settings("moves", TOLERANCE))
    assert bare.judged_steps() == plan.judged_steps()


def test_result_is_reused_unless_a_fresh_one_is_wanted(tmp_path: Path) -> None:
    counter = iter(range(9))
    cache = Cache(tmp_path)
    assert [cache.result("count", {"of": 1}, lambda: next(counter)) for _ in range(2)] == [0, 0]
    assert cache.result("count", {"of": 2}, lambda: next(counter)) == 1
    assert cache.reused == {"count": 1}
    assert Cache(tmp_path, is_fresh=True).result("count", {"of": 1}, lambda: next(counter)) == 2


def test_column_of_a_figure_that_another_judge_does_not_give_stays_empty(judged: JudgedPlan) -> None:
    def row_of(verdict: Verdict) -> float | None:
        comparison = Comparison(CASE, "AvgShedder", 9, judged.moves + 1, 0, verdict, judged)
        return Results.of(Findings(comparisons=[comparison])).comparisons[0].max_over_mean_after

    assert row_of(judged.verdict) == max(judged.verdict["max_over_mean_after"])
    assert row_of({name: value for name, value in judged.verdict.items() if "max_over_mean" not in name}) is None
