"""A dry run: the same loop over a writer that writes nothing."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import datetime

from evenkeel.model.errors import EvenkeelError
from evenkeel.model.observation import StepStart
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, PlanStatus, StepState
from evenkeel.ports import Clock

DRY_EPOCH = 0


class DryWriter:
    """A writer that takes no fence and leaves cluster and journal as they are."""

    opening_state = StepState.PROVED

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def statuses(self) -> Mapping[str, PlanStatus]:
        return {}

    def acquire(self, plan_id: str) -> int:
        return DRY_EPOCH

    def open(self, status: PlanStatus) -> Sequence[str]:
        return ()

    def rehearse(self, steps: Sequence[Step]) -> None:
        return None

    def journal(self, plan_id: str) -> Mapping[int, JournalEntry]:
        return {}

    def await_connection(self) -> None:
        return None

    def connected_for_s(self) -> float:
        return math.inf

    def now(self) -> datetime:
        return self._clock.now()

    def require_steady_clock(self) -> None:
        return None

    def require_no_migration(self) -> None:
        return None

    def pause_native_balancer(self) -> bool:
        return False

    def begin(self, starts: Sequence[StepStart]) -> Mapping[int, EvenkeelError]:
        return {}

    def enforce_destination(self, step: Step) -> None:
        return None

    def collision_keys(self, step: Step) -> frozenset[str]:
        return frozenset()

    def unloads(self, step: Step) -> int:
        return 0

    def conclude(self, entries: Sequence[JournalEntry]) -> None:
        return None

    def close(self, status: PlanStatus) -> Sequence[str]:
        return ()

    def release(self) -> None:
        return None
