"""The record under /service_unit_state: who owns a bundle, and what is happening to it.

`evenkeel.pulsar_rules.state_machine` knows which changes of a record Pulsar accepts; this module only reads and writes
the bytes. A record that cannot be read exactly is refused: a broker that reads an unknown state can never write that
bundle again.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import MALFORMED, is_whole, parse_json, show


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
            raise InputError("a record cannot have the state Init", "remove the node instead, as Pulsar does")
        if self.state is not ServiceUnitState.FREE and not (self.destination or self.source):
            raise InputError(f"a {self.state} record names no broker", "give it a source or a destination")

    @property
    def owner(self) -> str | None:
        """The broker that serves the bundle now: the source, until the state is Assigning."""
        if self.state is ServiceUnitState.OWNED:
            return self.destination
        if self.state in (ServiceUnitState.RELEASING, ServiceUnitState.SPLITTING):
            return self.source
        return None

    def encode(self) -> bytes:
        """Pulsar's JSON: fields in Pulsar's order, without nulls."""
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
        remedy = "wait until Pulsar's leader repairs the node, or correct it by hand"
        try:
            fields = parse_json(data)
            return cls(
                state=ServiceUnitState(fields["state"]),
                timestamp_ms=_whole(fields, "timestamp"),
                version_id=_whole(fields, "versionId"),
                destination=_text(fields, "dstBroker"),
                source=_text(fields, "sourceBroker"),
                children=_children(fields, "splitServiceUnitToDestBroker"),
                force=_flag(fields, "force"),
            )
        except MALFORMED as error:
            raise InputError(f"{path} is not a service-unit record ({error})", remedy) from error
        except InputError as error:
            raise InputError(f"{path} is not a service-unit record ({error.cause})", remedy) from error


def _whole(fields: Mapping[str, Any], name: str) -> int:
    value: int = fields[name]
    if not is_whole(value):
        raise TypeError(f"{name} = {show(value)} is not a whole number")
    return value


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    """A broker or a child's range; None if it is absent, null or empty."""
    value = fields.get(name)
    # Half a surrogate pair and control characters are JSON too, but name no broker.
    if value is not None and not (isinstance(value, str) and value.isprintable()):
        raise TypeError(f"{name} = {show(value)} is not a text")
    return value or None


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"{name} = {show(value)} is neither true nor false")
    return bool(value)


def _children(fields: Mapping[str, Any], name: str) -> dict[str, str | None] | None:
    value = fields.get(name)
    if value is None:
        return None
    if not isinstance(value, dict) or not all(map(str.isprintable, value)):
        raise TypeError(f"{name} = {show(value)} is not a map of texts")
    return {child: _text(value, child) for child in value}
