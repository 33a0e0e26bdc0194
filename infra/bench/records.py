"""What the bench finds out, plan by plan; everything else is computed from these."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from infra.bench.cases import Case
from infra.bench.figures import ratio
from infra.bench.judging import Verdict
from infra.bench.planning import MadePlan


@dataclass(frozen=True, slots=True)
class JudgedPlan:
    """A plan of ours with its judge's verdict.

    The judge counts splits, but does not carry them out. So a plan that splits is judged twice: as it is, on the files
    as they are (`given_verdict`), which say how few moves a plan needs, and with its splits done in the files.
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
        plan: MadePlan,
        given_verdict: Verdict,
        verdict: Verdict | None = None,
    ) -> JudgedPlan:
        """A plan with its verdict, or with both where it splits."""
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
    """What one configuration of Pulsar's did with a cluster, and our plan that leaves it no worse than that."""

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
    """How long our planner and Pulsar's AvgShedder took for the same cluster, each several times."""

    case: Case
    objective: str
    solve_s: tuple[float, ...]
    decide_ms: tuple[float, ...]

    def to_json(self) -> dict[str, Any]:
        fields = {"objective": self.objective, "solve_s": self.solve_s, "decide_ms": self.decide_ms}
        return {**case_fields(self.case), **fields}


@dataclass(frozen=True, slots=True)
class ScaleRun:
    """The largest cluster, planned in a process of its own."""

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
    """Whether the same cluster with its rows in another order gives the same plan."""

    case: Case
    plan_id: str
    shuffled_plan_id: str

    def to_json(self) -> dict[str, Any]:
        return {**case_fields(self.case), "plan_id": self.plan_id, "shuffled_plan_id": self.shuffled_plan_id}


def case_fields(case: Case) -> dict[str, Any]:
    """How a case is named in the JSON."""
    return {
        "scenario": case.scenario,
        "brokers": case.size.brokers,
        "bundles": case.size.bundles,
        "seed": case.seed,
    }
