"""The states of a bundle under Pulsar's extensible load manager, and which changes a broker may write.

              lookup                  destination
    Init ───────────────▶ Assigning ─────────────▶ Owned ──── split ────▶ Splitting
     ▲                      ▲   ▲                    │                       │ source: children exist,
     │                      │   │ source: closed,    │ unload or             │ boundaries written
     │               lookup │   │ has a destination  │ transfer              ▼
     │                      │   └──────────────── Releasing              Deleted
     │                      │                        │                       │
     │                    Free ◀─────────────────────┘                       │
     │                          source: closed, no destination               │
     └───────────────────────── the node is removed ─────────────────────────┘

Init means that there is no node. Only the leader may deviate from the arrows, with a forced write, and even that needs
the next version. A broker checks only its own writes against these rules; it obeys what others write unchecked.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Protocol

from evenkeel.model.service_unit import ServiceUnitState

FIRST_VERSION_ID = 1
LAST_VERSION_ID = 2**63 - 1
LOWEST_VERSION_ID = -(2**63)

_S = ServiceUnitState


class StateStore(StrEnum):
    """Where an extensible cluster stores its records; the two stores accept slightly different changes."""

    METADATA_STORE = "MetadataStore"
    SYSTEM_TOPIC = "SystemTopic"


class UnitRecord(Protocol):
    """The part of a record that the rules check; `ServiceUnitRecord` satisfies it."""

    @property
    def state(self) -> ServiceUnitState: ...
    @property
    def version_id(self) -> int: ...
    @property
    def destination(self) -> str | None: ...
    @property
    def source(self) -> str | None: ...
    @property
    def force(self) -> bool: ...


Transitions = Mapping[ServiceUnitState, frozenset[ServiceUnitState]]

_METADATA_STORE_TRANSITIONS: Transitions = {
    _S.INIT: frozenset({_S.ASSIGNING}),
    _S.FREE: frozenset({_S.ASSIGNING}),
    _S.OWNED: frozenset({_S.SPLITTING, _S.RELEASING}),
    _S.ASSIGNING: frozenset({_S.OWNED}),
    _S.RELEASING: frozenset({_S.ASSIGNING, _S.FREE}),
    _S.SPLITTING: frozenset({_S.DELETED}),
    _S.DELETED: frozenset({_S.INIT}),
}
# A compacted topic may have lost earlier records, so a reader has to accept any first record.
_SYSTEM_TOPIC_TRANSITIONS: Transitions = {
    **_METADATA_STORE_TRANSITIONS,
    _S.INIT: frozenset(_S) - {_S.INIT},
    _S.FREE: frozenset({_S.ASSIGNING, _S.INIT}),
}
TRANSITIONS: Mapping[StateStore, Transitions] = {
    StateStore.METADATA_STORE: _METADATA_STORE_TRANSITIONS,
    StateStore.SYSTEM_TOPIC: _SYSTEM_TOPIC_TRANSITIONS,
}


def is_valid_transition(
    before: ServiceUnitState, after: ServiceUnitState, store: StateStore = StateStore.METADATA_STORE
) -> bool:
    """Whether a bundle may change from one state to another without a forced write."""
    return after in TRANSITIONS[store][before]


def next_version_id(current: UnitRecord | None) -> int:
    """The version that the next record of a bundle must have."""
    if current is None:
        return FIRST_VERSION_ID
    return LOWEST_VERSION_ID if current.version_id == LAST_VERSION_ID else current.version_id + 1


def find_conflict(
    current: UnitRecord | None, new: UnitRecord | None, store: StateStore = StateStore.METADATA_STORE
) -> str | None:
    """Say why Pulsar would refuse to replace a record by another; None if it would accept."""
    if new is None:
        return None
    if current is None:
        return _find_first_record_fault(new, store)
    if new.version_id != next_version_id(current):
        # In a topic, a gap between versions means compaction, and the newer record is accepted.
        is_compacted = store is StateStore.SYSTEM_TOPIC and new.version_id > current.version_id
        return None if is_compacted else f"version {new.version_id} does not follow {current.version_id}"
    if new.force:
        return None
    if not is_valid_transition(current.state, new.state, store):
        return f"{current.state} cannot become {new.state}"
    return _find_broker_fault(current, new)


def _find_first_record_fault(new: UnitRecord, store: StateStore) -> str | None:
    if store is StateStore.METADATA_STORE:
        is_first = new.version_id == FIRST_VERSION_ID
        return None if is_first else f"version {new.version_id} cannot be the first"
    if new.force or is_valid_transition(ServiceUnitState.INIT, new.state, store):
        return None
    return f"nothing cannot become {new.state}"


def _find_broker_fault(current: UnitRecord, new: UnitRecord) -> str | None:
    match (current.state, new.state):
        case (_S.OWNED, _S.RELEASING):
            if not new.source or new.source != current.destination:
                return "only the owner can release"
            return "the owner cannot be its own destination" if new.destination == current.destination else None
        case (_S.OWNED, _S.SPLITTING):
            if new.destination:
                return "a split has no destination"
            return None if new.source == current.destination else "only the owner can split"
        case (_S.FREE, _S.ASSIGNING):
            return None if new.destination and not new.source else "an assignment names a destination and no source"
        case (_S.RELEASING, _S.ASSIGNING) if not new.destination:
            return "an assignment needs a destination"
        case (_S.ASSIGNING, _S.OWNED) | (_S.RELEASING, _S.ASSIGNING | _S.FREE) | (_S.SPLITTING, _S.DELETED):
            is_same = (new.destination or None, new.source or None) == (
                current.destination or None,
                current.source or None,
            )
            return None if is_same else "source and destination must stay as they were"
        case _:
            return None
