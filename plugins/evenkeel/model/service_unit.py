"""The record under /service_unit_state: who owns a bundle, and what is happening to it.

Which change of a record Pulsar accepts is a rule of `evenkeel.pulsar.state_machine`; this module only
reads and writes the bytes. A record that cannot be read exactly is refused, because a broker that meets
an unknown state can never write that bundle again (FACTS 3.7).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from evenkeel.model.errors import InputError


class ServiceUnitState(StrEnum):
    """States of a bundle, spelled as Pulsar spells them; Init is the absence of a node."""

    INIT = "Init"
    FREE = "Free"
    OWNED = "Owned"
    ASSIGNING = "Assigning"
    RELEASING = "Releasing"
    SPLITTING = "Splitting"
    DELETED = "Deleted"

    @property
    def is_in_flight(self) -> bool:
        return self in (ServiceUnitState.ASSIGNING, ServiceUnitState.RELEASING, ServiceUnitState.SPLITTING)


@dataclass(frozen=True, slots=True)
class ServiceUnitRecord:
    """One version of a bundle's record."""

    state: ServiceUnitState
    timestamp_ms: int
    version_id: int
    destination: str | None = None
    source: str | None = None
    children: Mapping[str, str | None] | None = None
    force: bool = False

    def __post_init__(self) -> None:
        if self.state is ServiceUnitState.INIT:
            raise InputError("a record cannot say Init", "remove the node instead, as Pulsar does")
        if self.state is not ServiceUnitState.FREE and not (self.destination or self.source):
            raise InputError(f"a {self.state} record names no broker", "give it a source or a destination")

    @property
    def owner(self) -> str | None:
        """The broker that serves the bundle now: the source keeps it until a hand-over is Assigning."""
        if self.state is ServiceUnitState.OWNED:
            return self.destination
        if self.state in (ServiceUnitState.RELEASING, ServiceUnitState.SPLITTING):
            return self.source
        return None

    def encode(self) -> bytes:
        """Pulsar's JSON, fields in Pulsar's order, nulls left out."""
        fields: dict[str, Any] = {"state": str(self.state)}
        if self.destination is not None:
            fields["dstBroker"] = self.destination
        if self.source is not None:
            fields["sourceBroker"] = self.source
        if self.children is not None:
            fields["splitServiceUnitToDestBroker"] = dict(self.children)
        fields |= {"force": self.force, "timestamp": self.timestamp_ms, "versionId": self.version_id}
        return json.dumps(fields, separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes, path: str) -> ServiceUnitRecord:
        remedy = "let Pulsar's leader repair the node, or correct it by hand, then try again"
        try:
            fields = json.loads(data)
            children = fields.get("splitServiceUnitToDestBroker")
            return cls(
                state=ServiceUnitState(fields["state"]),
                timestamp_ms=int(fields["timestamp"]),
                version_id=int(fields["versionId"]),
                destination=fields.get("dstBroker") or None,
                source=fields.get("sourceBroker") or None,
                children=None if children is None else dict(children),
                force=bool(fields.get("force", False)),
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise InputError(f"{path} holds no service-unit record ({error})", remedy) from error
        except InputError as error:
            raise InputError(f"{path} holds no service-unit record ({error.cause})", remedy) from error
