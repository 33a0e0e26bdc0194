"""A dry run: the same loop over a writer that writes nothing."""

from __future__ import annotations

from collections.abc import Mapping

from evenkeel.model.observation import BundleView
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.service_unit import ServiceUnitRecord

DRY_EPOCH = 0


class DryWriter:
    """A writer that takes no fence and leaves cluster and journal as they are."""

    opening_state = StepState.PROVED

    def acquire(self, plan_id: str) -> int:
        return DRY_EPOCH

    def journal(self, plan_id: str) -> Mapping[int, JournalEntry]:
        return {}

    def begin(self, step: Step, view: BundleView, record: ServiceUnitRecord | None, entry: JournalEntry) -> None:
        return None

    def conclude(self, entry: JournalEntry) -> None:
        return None

    def release(self) -> None:
        return None
