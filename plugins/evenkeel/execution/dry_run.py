"""A dry run: the same loop over a writer that writes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from evenkeel.model.errors import EvenkeelError
from evenkeel.model.observation import StepStart
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, PlanStanding, StepState

DRY_EPOCH = 0


class DryWriter:
    """A writer that takes no fence and leaves cluster and journal as they are."""

    opening_state = StepState.PROVED

    def standings(self) -> Mapping[str, PlanStanding]:
        return {}

    def acquire(self, plan_id: str) -> int:
        return DRY_EPOCH

    def open(self, standing: PlanStanding) -> Sequence[str]:
        return ()

    def journal(self, plan_id: str) -> Mapping[int, JournalEntry]:
        return {}

    def await_connection(self) -> None:
        return None

    def connected_for_s(self) -> float:
        return math.inf

    def pause_native_balancer(self) -> bool:
        return False

    def begin(self, starts: Sequence[StepStart]) -> Mapping[int, EvenkeelError]:
        return {}

    def drive_home(self, step: Step) -> None:
        return None

    def conclude(self, entries: Sequence[JournalEntry]) -> None:
        return None

    def close(self, standing: PlanStanding) -> Sequence[str]:
        return ()

    def release(self) -> None:
        return None
