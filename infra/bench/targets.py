"""What the plans must reach: findings held against the targets, row by row."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from infra.bench.cases import Size
from infra.bench.figures import Figure
from infra.bench.records import Comparison, JudgedPlan, OrderTrial, ScaleRun, Timing
from infra.bench.rows import ComparisonRow, DistanceRow, OrderRow, RuleRow, ScaleRow, TimeRow

MOST_WORST_AFTER = 1.051
# A seed may lie this much above the median of its seeds.
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

Record = TypeVar("Record")
Key = tuple[str, ...]


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
    """Times are compared with those of the same scenario and objective at the reference size."""
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
    # With an even number of seeds the upper one in the middle, which is the harder reading.
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
    # Both name cpu, bandwidth in and bandwidth out in this order.
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
        worst_after=statistics.median(each.verdict["worst_after"] for each in comparisons),
        std_after=statistics.median(max(each.verdict["std_after"]) for each in comparisons),
        our_moves=statistics.median_high(each.ours.moves for each in comparisons),
        moves_beyond_unloads=Figure(max(each.ours.moves - each.unloads for each in comparisons), 0, "below"),
        our_worst_beyond_theirs=Figure(
            max(each.ours.verdict["worst_after"] - each.verdict["worst_after"] for each in comparisons),
            UTILISATION_ROUNDING,
        ),
        our_illegal=Figure(max(each.ours.verdict["illegal_count"] for each in comparisons), 0),
    )


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
