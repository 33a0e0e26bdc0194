"""What the writer sees of a bundle at one moment."""

from __future__ import annotations

from dataclasses import dataclass

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
