"""Everything that one run of the bench found, as rows and as one JSON document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from infra.bench.cases import LARGE
from infra.bench.figures import Row, count_targets, find_misses
from infra.bench.records import Comparison, JudgedPlan, OrderTrial, ScaleRun, Timing
from infra.bench.rows import ComparisonRow, DistanceRow, OrderRow, RuleRow, ScaleRow, TimeRow
from infra.bench.targets import comparison_rows, distance_rows, order_rows, rule_rows, scale_rows, time_rows

RESULTS_SCHEMA_VERSION = 1


@dataclass(slots=True)
class Findings:
    """What was measured, in the order in which it was."""

    plans: list[JudgedPlan] = field(default_factory=list)
    comparisons: list[Comparison] = field(default_factory=list)
    timings: list[Timing] = field(default_factory=list)
    scale_runs: list[ScaleRun] = field(default_factory=list)
    order_trials: list[OrderTrial] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Results:
    """The findings held against the targets."""

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
    """One document: how it was run, the rows with their targets, what was missed, and every plan behind them."""
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
