"""What steps of a plan cost together: the one place where reports and comparisons add them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from evenkeel.model.load import MILLI
from evenkeel.model.plan import Step, StepKind


@dataclass(frozen=True, slots=True)
class Cost:
    """What some steps cost together; a split is a step, but no move."""

    steps: int
    moves: int
    sessions: int
    client_seconds: float
    moved_bytes_per_s: int


def cost_of(steps: Sequence[Step]) -> Cost:
    """Add steps up."""
    moves = [step for step in steps if step.kind != StepKind.SPLIT]
    return Cost(
        steps=len(steps),
        moves=len(moves),
        sessions=sum(step.sessions for step in moves),
        client_seconds=sum(step.disruption_client_ms for step in steps) / MILLI,
        moved_bytes_per_s=sum(step.throughput_in_bytes_per_s + step.throughput_out_bytes_per_s for step in moves),
    )
