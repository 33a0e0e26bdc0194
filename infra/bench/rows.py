"""The rows of the bench's tables: each says something about one subject, with the targets that it is held to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from infra.bench.figures import Figure, Row


@dataclass(frozen=True, slots=True)
class DistanceRow(Row):
    """How far the plans of one objective are from the bounds; counts are those of the seed in the middle."""

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
    """Whether the plans are legal, bring the cluster into the band and know their bounds; the worst of the seeds."""

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
    """One configuration of Pulsar's against our plan for the balance that it reached; medians of the seeds."""

    subject_fields: ClassVar[tuple[str, ...]] = ("scenario", "size", "configuration")
    scenario: str
    size: str
    configuration: str
    unloads: int
    illegal_moves: int
    worst_after: float
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
    """The largest cluster: memory and time, and that its plan is one."""

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
    """Whether the order of the input rows leaves the plan alone."""

    subject_fields: ClassVar[tuple[str, ...]] = ("scenario", "size")
    scenario: str
    size: str
    other_plan_ids: Figure
