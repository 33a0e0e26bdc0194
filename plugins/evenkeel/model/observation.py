"""What the writer sees of a bundle at one moment, and what it is about to do to it."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState


@dataclass(frozen=True, slots=True)
class BundleView:
    """A bundle's ownership as read once; its versions make a later write conditional on this very reading."""

    bundle: str
    state: ServiceUnitState
    owner: str | None
    znode_version: int | None = None
    record: ServiceUnitRecord | None = None

    @property
    def version_id(self) -> int | None:
        return None if self.record is None else self.record.version_id


@dataclass(frozen=True, slots=True)
class StepStart:
    """A step that every proof holds for: the reading that proved it, the record to write, and its journal entry."""

    step: Step
    view: BundleView
    record: ServiceUnitRecord | None
    entry: JournalEntry
