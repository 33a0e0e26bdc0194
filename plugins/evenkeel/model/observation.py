"""What the writer reads about a bundle, and what it is about to write."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState


@dataclass(frozen=True, slots=True)
class BundleView:
    """A bundle's ownership as read once; its versions make a later write conditional on this reading."""

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
    """A step that passed every check: the reading it is based on, the record to write, and its journal entry."""

    step: Step
    view: BundleView
    record: ServiceUnitRecord | None
    entry: JournalEntry
