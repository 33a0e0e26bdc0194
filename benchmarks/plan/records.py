"""What the bench measured, plan by plan; all tables are computed from these records."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from benchmarks.plan.cases import Case
from benchmarks.plan.judging import Verdict
from benchmarks.plan.planning import TimedPlan


@dataclass(frozen=True, slots=True)
class JudgedPlan:
    """One of Evenkeel's plans with the judge's verdict.

    The judge counts splits, but does not carry them out. So a plan that splits is judged twice: on the original files
    (`given_verdict`), which the bounds come from, and on files in which its bundles are split (`verdict`).
    """

    case: Case
    objective: str
    tolerance: float
    plan_id: str
    moves: int
    splits: int
    client_seconds: float
    seconds: float
    own_bounds: Mapping[str, Any]
    given_verdict: Verdict
    verdict: Verdict

    @classmethod
    def of(
        cls,
        case: Case,
        objective: str,
        tolerance: float,
        plan: TimedPlan,
        given_verdict: Verdict,
        verdict: Verdict | None = None,
    ) -> JudgedPlan:
        """A plan with its verdict, or with both verdicts if it splits."""
        splits = len(plan.boundaries)
        return cls(
            case=case,
            objective=objective,
            tolerance=tolerance,
            plan_id=plan.plan_id,
            moves=len(plan.steps) - splits,
            splits=splits,
            client_seconds=plan.client_seconds,
            seconds=plan.seconds,
            own_bounds=plan.bounds,
            given_verdict=given_verdict,
            verdict=given_verdict if verdict is None else verdict,
        )

    @property
    def sessions(self) -> int:
        return int(self.verdict["sessions_moved"])

    @property
    def moves_bound(self) -> float:
        return max(float(self.given_verdict["moves_lower_bound"]), float(self.own_bounds["moves"]))

    @property
    def sessions_bound(self) -> float:
        return max(float(self.given_verdict["sessions_lower_bound"]), float(self.own_bounds["sessions"]))

    @property
    def moves_ratio(self) -> float:
        return ratio(self.moves, self.moves_bound)

    @property
    def sessions_ratio(self) -> float:
        return ratio(self.sessions, self.sessions_bound)

    def to_json(self) -> dict[str, Any]:
        return {
            **case_fields(self.case),
            "objective": self.objective,
            "tolerance": self.tolerance,
            "plan_id": self.plan_id,
            "moves": self.moves,
            "splits": self.splits,
            "sessions": self.sessions,
            "client_seconds": self.client_seconds,
            "seconds": self.seconds,
            "own_bounds": self.own_bounds,
            "given_verdict": self.given_verdict,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """What one of Pulsar's configurations did with a cluster, and the plan that leaves it at least as balanced."""

    case: Case
    configuration: str
    cycles: int
    unloads: int
    repeat_unloads: int
    verdict: Verdict
    ours: JudgedPlan

    def to_json(self) -> dict[str, Any]:
        return {
            **case_fields(self.case),
            "configuration": self.configuration,
            "cycles": self.cycles,
            "unloads": self.unloads,
            "repeat_unloads": self.repeat_unloads,
            "verdict": self.verdict,
            "ours": self.ours.to_json(),
        }


@dataclass(frozen=True, slots=True)
class Timing:
    """How long the planner and Pulsar's AvgShedder took for the same cluster, each several times."""

    case: Case
    objective: str
    solve_s: tuple[float, ...]
    decide_ms: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        fields = {"objective": self.objective, "solve_s": self.solve_s, "decide_ms": self.decide_ms}
        return {**case_fields(self.case), **fields}


@dataclass(frozen=True, slots=True)
class ScaleRun:
    """The largest cluster, planned in a separate process."""

    case: Case
    objective: str
    solve_s: float
    peak_rss_bytes: int
    moves: int
    verdict: Verdict

    def to_json(self) -> dict[str, Any]:
        return {
            **case_fields(self.case),
            "objective": self.objective,
            "solve_s": self.solve_s,
            "peak_rss_bytes": self.peak_rss_bytes,
            "moves": self.moves,
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class OrderTrial:
    """The plan ids of a cluster and of the same cluster with its rows in another order."""

    case: Case
    plan_id: str
    shuffled_plan_id: str

    def to_json(self) -> dict[str, Any]:
        return {**case_fields(self.case), "plan_id": self.plan_id, "shuffled_plan_id": self.shuffled_plan_id}


def case_fields(case: Case) -> dict[str, Any]:
    """The fields that name a case in the JSON document."""
    return {
        "scenario": case.scenario,
        "brokers": case.size.brokers,
        "bundles": case.size.bundles,
        "seed": case.seed,
    }


def ratio(achieved: float, bound: float) -> float:
    """A cost over its lower bound; doing nothing where nothing is needed is perfect."""
    if bound:
        return achieved / bound
    return math.inf if achieved else 1.0


@dataclass(slots=True)
class Findings:
    """Everything that one run measured, in order."""

    plans: list[JudgedPlan] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    scale_runs: list[ScaleRun] = field(default_factory=list)
    order_trials: list[OrderTrial] = field(default_factory=list)
