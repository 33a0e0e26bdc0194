"""What the plans must reach: compares the findings with the targets, row by row."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from benchmarks.plan.cases import LARGE, Size
from benchmarks.plan.records import Comparison, Findings, JudgedPlan, OrderTrial, ScaleRun, Timing
from benchmarks.plan.rows import (
    ComparisonRow,
    DistanceRow,
    Figure,
    OrderRow,
    Row,
    RuleRow,
    ScaleRow,
    TimeRow,
    count_targets,
    find_misses,
)

MOST_WORST_AFTER = 1.051
# How far a seed may lie above the median of all seeds.
SEED_SPREAD = 0.05
EASY, VARIED = ("skew", "scaleout", "hetero"), ("multi", "policy")
MOVES_TARGETS = {
    "moves": dict.fromkeys(EASY, 1.03) | dict.fromkeys(VARIED, 1.10) | {"heavy": 1.15},
    "disruption": {},
    "balanced": dict.fromkeys(EASY + VARIED, 1.20),
}
SESSIONS_TARGETS: dict[str, dict[str, float]] = {
    "moves": {},
    "disruption": dict.fromkeys(EASY, 1.06) | dict.fromkeys(VARIED, 1.15),
    "balanced": dict.fromkeys(EASY + VARIED, 1.30),
}
MOST_TIME_OVER_PULSAR = 1.0
MOST_TIME_OVER_LARGE = 60.0
MOST_PEAK_RSS_GIB = 2.0
GIB = 2**30
# The judge rounds what it prints: sessions to tenths, shares to five digits, utilisations to four.
SESSIONS_ROUNDING, SHARE_ROUNDING, UTILISATION_ROUNDING = 0.05, 1e-5, 1e-3

RESULTS_SCHEMA_VERSION = 1

Record = TypeVar("Record")
Key = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Results:
    """The findings, compared with the targets."""

    distances: list[DistanceRow]
    rules: list[RuleRow]
    comparisons: list[ComparisonRow]
    times: list[TimeRow]
    scale: list[ScaleRow]
    orders: list[OrderRow]

    @classmethod
    def of(cls, findings: Findings) -> Results:
        return cls(
            distances=distance_rows(findings.plans),
            rules=rule_rows(findings.plans),
            comparisons=comparison_rows(findings.comparisons),
            times=time_rows(findings.timings),
            scale=scale_rows(findings.scale_runs, findings.timings, LARGE),
            orders=order_rows(findings.order_trials),
        )

    @property
    def rows(self) -> list[Row]:
        return [*self.distances, *self.rules, *self.comparisons, *self.times, *self.scale, *self.orders]

    @property
    def is_met(self) -> bool:
        return all(row.is_met for row in self.rows)


def to_json(findings: Findings, results: Results, run: Mapping[str, Any]) -> dict[str, Any]:
    """One document: how the bench ran, the rows with their targets, the misses, and every plan behind them."""
    return {
        "schema_version": RESULTS_SCHEMA_VERSION,
        "run": dict(run),
        "targets": count_targets(results.rows),
        "missed": [
            {"subject": miss.subject, "figure": miss.name, **miss.figure.to_json()}
            for miss in find_misses(results.rows)
        ],
        "ok": results.is_met,
        "distance": [row.to_json() for row in results.distances],
        "rules": [row.to_json() for row in results.rules],
        "pulsar": [row.to_json() for row in results.comparisons],
        "time": [row.to_json() for row in results.times],
        "scale": [row.to_json() for row in results.scale],
        "row_order": [row.to_json() for row in results.orders],
        "plans": [plan.to_json() for plan in findings.plans],
        "comparisons": [each.to_json() for each in findings.comparisons],
        "timings": [timing.to_json() for timing in findings.timings],
        "scale_runs": [run.to_json() for run in findings.scale_runs],
        "order_trials": [trial.to_json() for trial in findings.order_trials],
    }


def distance_rows(plans: Iterable[JudgedPlan]) -> list[DistanceRow]:
    return [_distance_row(group) for group in _grouped(plans, _by_objective)]


def rule_rows(plans: Iterable[JudgedPlan]) -> list[RuleRow]:
    return [_rule_row(group) for group in _grouped(plans, _by_objective)]


def comparison_rows(comparisons: Iterable[Comparison]) -> list[ComparisonRow]:
    groups = _grouped(comparisons, lambda each: (each.case.scenario, str(each.case.size), each.configuration))
    return [_comparison_row(group) for group in groups]


def time_rows(timings: Iterable[Timing]) -> list[TimeRow]:
    return [_time_row(timing) for timing in timings]


def scale_rows(runs: Iterable[ScaleRun], timings: Iterable[Timing], reference: Size) -> list[ScaleRow]:
    """Compare times with those of the same scenario and objective at the reference size."""
    seconds = {
        (timing.case.scenario, timing.objective): statistics.median(timing.solve_s)
        for timing in timings
        if timing.case.size == reference
    }
    return [_scale_row(run, seconds.get((run.case.scenario, run.objective))) for run in runs]


def order_rows(trials: Iterable[OrderTrial]) -> list[OrderRow]:
    return [
        OrderRow(trial.case.scenario, str(trial.case.size), Figure(int(trial.plan_id != trial.shuffled_plan_id), 0))
        for trial in trials
    ]


def _distance_row(plans: Sequence[JudgedPlan]) -> DistanceRow:
    by_moves = sorted(plans, key=lambda plan: plan.moves_ratio)
    by_sessions = sorted(plans, key=lambda plan: plan.sessions_ratio)
    # With an even number of seeds, take the upper of the two in the middle.
    moves, sessions = by_moves[len(plans) // 2], by_sessions[len(plans) // 2]
    scenario, objective = moves.case.scenario, moves.objective
    moves_target = MOVES_TARGETS[objective].get(scenario)
    sessions_target = SESSIONS_TARGETS[objective].get(scenario)
    return DistanceRow(
        scenario=scenario,
        size=str(moves.case.size),
        objective=objective,
        moves=moves.moves,
        moves_bound=moves.moves_bound,
        moves_ratio=Figure(moves.moves_ratio, moves_target),
        worst_moves_ratio=_worst(by_moves[-1].moves_ratio, moves.moves_ratio, moves_target),
        sessions=sessions.sessions,
        sessions_bound=sessions.sessions_bound,
        sessions_ratio=Figure(sessions.sessions_ratio, sessions_target),
        worst_sessions_ratio=_worst(by_sessions[-1].sessions_ratio, sessions.sessions_ratio, sessions_target),
    )


def _worst(worst: float, median: float, target: float | None) -> Figure:
    return Figure(worst, None if target is None else median + SEED_SPREAD)


def _rule_row(plans: Sequence[JudgedPlan]) -> RuleRow:
    verdicts = [plan.verdict for plan in plans]
    before = [verdict["violations_before"]["anti_affinity_peak"] for verdict in verdicts]
    after = [verdict["violations_after"]["anti_affinity_peak"] for verdict in verdicts]
    first = plans[0]
    return RuleRow(
        scenario=first.case.scenario,
        size=str(first.case.size),
        objective=first.objective,
        splits=max(plan.splits for plan in plans),
        illegal=Figure(max(verdict["illegal_count"] for verdict in verdicts), 0),
        moved_twice=Figure(max(verdict["moved_twice"] for verdict in verdicts), 0),
        misplaced_after=Figure(max(verdict["violations_after"]["misplaced"] for verdict in verdicts), 0),
        anti_affinity_before=max(before),
        anti_affinity_after=max(after),
        anti_affinity_rise=Figure(max(a - b for a, b in zip(after, before, strict=True)), 0),
        worst_after=Figure(max(verdict["worst_after"] for verdict in verdicts), MOST_WORST_AFTER),
        own_moves_bound_lead=_lead(plans, _moves_lead, 0.0),
        own_sessions_bound_lead=_lead(plans, _sessions_lead, -SESSIONS_ROUNDING),
        own_share_bound_lead=_lead(plans, _share_lead, -SHARE_ROUNDING),
    )


def _lead(plans: Sequence[JudgedPlan], lead: Callable[[JudgedPlan], float], least: float) -> Figure:
    return Figure(min(lead(plan) for plan in plans), least, "at least")


def _moves_lead(plan: JudgedPlan) -> float:
    return float(plan.own_bounds["moves"] - plan.given_verdict["moves_lower_bound"])


def _sessions_lead(plan: JudgedPlan) -> float:
    return float(plan.own_bounds["sessions"] - plan.given_verdict["sessions_lower_bound"])


def _share_lead(plan: JudgedPlan) -> float:
    # Both list cpu, bandwidth in and bandwidth out in this order.
    own = plan.own_bounds["moved_share"].values()
    judges = plan.given_verdict["moved_share_lower_bound"]
    return min(float(mine - theirs) for mine, theirs in zip(own, judges, strict=True))


def _comparison_row(comparisons: Sequence[Comparison]) -> ComparisonRow:
    first = comparisons[0]
    return ComparisonRow(
        scenario=first.case.scenario,
        size=str(first.case.size),
        configuration=first.configuration,
        unloads=statistics.median_high(each.unloads for each in comparisons),
        illegal_moves=statistics.median_high(each.verdict["illegal_count"] for each in comparisons),
        misplaced_after=statistics.median_high(each.verdict["violations_after"]["misplaced"] for each in comparisons),
        worst_after=statistics.median(each.verdict["worst_after"] for each in comparisons),
        max_over_mean_after=_max_over_mean(comparisons),
        std_after=statistics.median(max(each.verdict["std_after"]) for each in comparisons),
        our_moves=statistics.median_high(each.ours.moves for each in comparisons),
        moves_beyond_unloads=Figure(max(each.ours.moves - each.unloads for each in comparisons), 0, "below"),
        our_worst_beyond_theirs=Figure(
            max(each.ours.verdict["worst_after"] - each.verdict["worst_after"] for each in comparisons),
            UTILISATION_ROUNDING,
        ),
        our_illegal=Figure(max(each.ours.verdict["illegal_count"] for each in comparisons), 0),
    )


def _max_over_mean(comparisons: Sequence[Comparison]) -> float | None:
    given = [each.verdict.get("max_over_mean_after") for each in comparisons]
    return None if None in given else statistics.median(max(ratios) for ratios in given if ratios)


def _time_row(timing: Timing) -> TimeRow:
    solve_s = statistics.median(timing.solve_s)
    decide_s = statistics.median(timing.decide_ms) / 1000 if timing.decide_ms else None
    over = Figure(solve_s / decide_s, MOST_TIME_OVER_PULSAR) if decide_s else None
    return TimeRow(timing.case.scenario, str(timing.case.size), timing.objective, solve_s, decide_s, over)


def _scale_row(run: ScaleRun, large_s: float | None) -> ScaleRow:
    return ScaleRow(
        scenario=run.case.scenario,
        size=str(run.case.size),
        objective=run.objective,
        moves=run.moves,
        solve_s=run.solve_s,
        peak_rss_gib=Figure(run.peak_rss_bytes / GIB, MOST_PEAK_RSS_GIB),
        time_over_large=Figure(run.solve_s / large_s, MOST_TIME_OVER_LARGE) if large_s else None,
        illegal=Figure(run.verdict["illegal_count"], 0),
        worst_after=Figure(run.verdict["worst_after"], MOST_WORST_AFTER),
    )


def _by_objective(plan: JudgedPlan) -> Key:
    return plan.case.scenario, str(plan.case.size), plan.objective


def _grouped(records: Iterable[Record], key: Callable[[Record], Key]) -> list[list[Record]]:
    """Records with the same key together, in the order in which the keys appear."""
    groups: dict[Key, list[Record]] = {}
    for record in records:
        groups.setdefault(key(record), []).append(record)
    return list(groups.values())
