"""Measured values with their targets, and the rows of the bench's tables."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal


@dataclass(frozen=True, slots=True)
class Figure:
    """A value and its target, if it has one."""

    value: float
    target: float | None = None
    relation: Literal["at most", "below", "at least"] = "at most"

    @property
    def is_met(self) -> bool:
        if self.target is None:
            return True
        if self.relation == "at least":
            return self.value >= self.target
        return self.value < self.target if self.relation == "below" else self.value <= self.target

    def to_json(self) -> dict[str, Any]:
        # A ratio to a bound of zero is infinite, and JSON has no infinity.
        value, target = (
            number if number is None or math.isfinite(number) else None for number in (self.value, self.target)
        )
        return {"value": value, "target": target, "relation": self.relation, "ok": self.is_met}


class Row:
    """The figures of one subject, beside plain values; subclasses are dataclasses."""

    __slots__ = ()
    subject_fields: ClassVar[tuple[str, ...]] = ()

    @property
    def subject(self) -> str:
        return " ".join(str(getattr(self, name)) for name in self.subject_fields)

    def figures(self) -> Iterator[tuple[str, Figure]]:
        for name in self._names():
            value = getattr(self, name)
            if isinstance(value, Figure):
                yield name, value

    @property
    def is_met(self) -> bool:
        return all(figure.is_met for _, figure in self.figures())

    def to_json(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in self._names()}
        return {name: value.to_json() if isinstance(value, Figure) else value for name, value in values.items()}

    def _names(self) -> list[str]:
        return [field.name for field in dataclasses.fields(self)]  # type: ignore[arg-type]  # subclasses are dataclasses


@dataclass(frozen=True, slots=True)
class Miss:
    """A figure that did not meet its target."""

    subject: str
    name: str
    figure: Figure

    def __str__(self) -> str:
        figure, name = self.figure, self.name.replace("_", " ")
        return f"{self.subject}: {name} is {figure.value:,.4g}, should be {figure.relation} {figure.target:,.4g}"


def find_misses(rows: Sequence[Row]) -> list[Miss]:
    """Every figure of these rows that did not meet its target."""
    return [Miss(row.subject, name, figure) for row in rows for name, figure in row.figures() if not figure.is_met]


def count_targets(rows: Sequence[Row]) -> int:
    """How many figures of these rows have a target."""
    return sum(figure.target is not None for row in rows for _, figure in row.figures())


@dataclass(frozen=True, slots=True)
class DistanceRow(Row):
    """How far the plans of one objective are from the lower bounds; counts are those of the median seed."""

    subject_fields: ClassVar[tuple[str, ...]] = ("scenario", "size", "objective")
    scenario: str
    size: str
    objective: str
    moves: int
    moves_bound: float
    moves_ratio: Figure
    worst_moves_ratio: Figure
    sessions: int
    sessions_bound: float
    sessions_ratio: Figure
    worst_sessions_ratio: Figure


@dataclass(frozen=True, slots=True)
class RuleRow(Row):
    """Whether the plans are legal, reach the band and have tight bounds; the worst seed counts."""

    subject_fields: ClassVar[tuple[str, ...]] = ("scenario", "size", "objective")
    scenario: str
    size: str
    objective: str
    splits: int
    illegal: Figure
    moved_twice: Figure
    misplaced_after: Figure
    anti_affinity_before: int
    anti_affinity_after: int
    anti_affinity_rise: Figure
    worst_after: Figure
    own_moves_bound_lead: Figure
    own_sessions_bound_lead: Figure
    own_share_bound_lead: Figure


@dataclass(frozen=True, slots=True)
class ComparisonRow(Row):
    """One of Pulsar's configurations, and the plan for the balance that it reached; medians of the seeds."""

    subject_fields: ClassVar[tuple[str, ...]] = ("scenario", "size", "configuration")
    scenario: str
    size: str
    configuration: str
    unloads: int
    illegal_moves: int
    misplaced_after: int
    worst_after: float
    max_over_mean_after: float | None
    """Of the least balanced resource; None if another judge does not give it."""
    std_after: float
    our_moves: int
    moves_beyond_unloads: Figure
    our_worst_beyond_theirs: Figure
    our_illegal: Figure


@dataclass(frozen=True, slots=True)
class TimeRow(Row):
    """The planner's time against what AvgShedder spends deciding; medians."""

    subject_fields: ClassVar[tuple[str, ...]] = ("scenario", "size", "objective")
    scenario: str
    size: str
    objective: str
    solve_s: float
    decide_s: float | None
    time_over_pulsar: Figure | None


@dataclass(frozen=True, slots=True)
class ScaleRow(Row):
    """Memory and time for the largest cluster, and whether its plan is legal and reaches the band."""

    subject_fields: ClassVar[tuple[str, ...]] = ("scenario", "size", "objective")
    scenario: str
    size: str
    objective: str
    moves: int
    solve_s: float
    peak_rss_gib: Figure
    time_over_large: Figure | None
    illegal: Figure
    worst_after: Figure


@dataclass(frozen=True, slots=True)
class OrderRow(Row):
    """Whether the order of the input rows changes the plan."""

    subject_fields: ClassVar[tuple[str, ...]] = ("scenario", "size")
    scenario: str
    size: str
    other_plan_ids: Figure
