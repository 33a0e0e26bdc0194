"""Brokers as KIP-343 sees them: the states that a decider holds for them, and which incarnation it believes.

Evenkeel is the decider. A broker's load reports are its heartbeats. Its *target* is what it, or its operator, wants it
to be: Active, or Stopping while it is under `draining/` or shuts down. Its *current* state is what the decider makes of
it; the table below is the whole of it, and `NEXT_STATE` is the table.

    current   │ registered  reported,     reported,        marked    unmarked  overdue   unregistered
              │ anew        wants Active  wants Stopping   to stop
    ──────────┼──────────────────────────────────────────────────────────────────────────────────────
    Initial   │ Initial     Active        Stopping         Stopping  Initial   Inactive  Inactive
    Active    │ Initial     Active        Stopping         Stopping  Active    Inactive  Inactive
    Inactive  │ Initial     Active        Stopping         Inactive  Inactive  Inactive  Inactive
    Stopping  │ Initial     Active        Stopping         Stopping  Initial   Inactive  Inactive

Only a report makes a broker Active: one whose mark is taken away is Initial until it reports. A silent broker is
Inactive whatever it wants, so that nobody waits for it.

    state      receives bundles   serves what it has
    Initial    no                 yes
    Active     yes                yes
    Inactive   no                 finishes what it has, if it lives at all
    Stopping   no                 yes, until it is emptied

There are two time-outs. The decider's is the shorter one: a broker that cannot report is declared Inactive before it
fences itself, that is, before it refuses what is new and only finishes what it has. Otherwise bundles would be sent to
a broker that refuses them.

An incarnation is the czxid of the registration node, so a later one is larger. One that is older than one seen is an
old process, or an old copy of ZooKeeper, and is never accepted; a newer one voids whatever was decided for the old.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.snapshot import BrokerState

INITIAL, ACTIVE, INACTIVE, STOPPING = (
    BrokerState.INITIAL,
    BrokerState.ACTIVE,
    BrokerState.INACTIVE,
    BrokerState.STOPPING,
)


class BrokerEvent(StrEnum):
    """What a decider learns of a broker."""

    REGISTERED = "registered anew"
    REPORTED_ACTIVE = "reported, wants Active"
    REPORTED_STOPPING = "reported, wants Stopping"
    MARKED = "marked to stop"
    UNMARKED = "unmarked"
    OVERDUE = "overdue"
    UNREGISTERED = "unregistered"


_ROWS: Final = {
    INITIAL: (INITIAL, ACTIVE, STOPPING, STOPPING, INITIAL, INACTIVE, INACTIVE),
    ACTIVE: (INITIAL, ACTIVE, STOPPING, STOPPING, ACTIVE, INACTIVE, INACTIVE),
    INACTIVE: (INITIAL, ACTIVE, STOPPING, INACTIVE, INACTIVE, INACTIVE, INACTIVE),
    STOPPING: (INITIAL, ACTIVE, STOPPING, STOPPING, INITIAL, INACTIVE, INACTIVE),
}
NEXT_STATE: Final[Mapping[tuple[BrokerState, BrokerEvent], BrokerState]] = {
    (current, event): target for current, row in _ROWS.items() for event, target in zip(BrokerEvent, row, strict=True)
}
"""The table of the module's docstring: current state and event → next state."""

RECEIVING_STATES: Final = frozenset({ACTIVE})


@dataclass(frozen=True, slots=True)
class HeartbeatTimeouts:
    """After how long without a report a broker is declared Inactive, and after how long it fences itself."""

    decider_s: float
    broker_s: float
    decider_key: str = "report_decider_timeout_s"
    broker_key: str = "report_broker_timeout_s"

    def __post_init__(self) -> None:
        if not 0 <= self.decider_s < self.broker_s:
            raise InputError(
                f"{self.decider_key} = {self.decider_s:g} is not below {self.broker_key} = {self.broker_s:g}",
                f"lower {self.decider_key} or raise {self.broker_key}: a broker must be declared Inactive before it "
                "fences itself",
            )

    def is_overdue(self, report_age_s: float) -> bool:
        """Whether the decider waits no longer; a report from far ahead comes from a broken clock and is none."""
        return abs(report_age_s) > self.decider_s

    def is_fenced(self, report_age_s: float) -> bool:
        """Whether the broker itself takes nothing new any more."""
        return report_age_s > self.broker_s


@dataclass(frozen=True, slots=True)
class BrokerSighting:
    """What can be seen of a broker at one moment."""

    is_registered: bool
    report_age_s: float | None
    is_marked: bool

    @property
    def target(self) -> BrokerState:
        """What the broker, or its operator, wants it to be."""
        return STOPPING if self.is_marked else ACTIVE

    def events(self, timeouts: HeartbeatTimeouts) -> tuple[BrokerEvent, ...]:
        """How a decider that knew nothing would have learned of it."""
        if not self.is_registered:
            return (BrokerEvent.UNREGISTERED,)
        learned = [BrokerEvent.REGISTERED]
        if self.report_age_s is not None:
            learned.append(self._heartbeat(self.report_age_s, timeouts))
        if self.is_marked:
            learned.append(BrokerEvent.MARKED)
        return tuple(learned)

    def _heartbeat(self, report_age_s: float, timeouts: HeartbeatTimeouts) -> BrokerEvent:
        if timeouts.is_overdue(report_age_s):
            return BrokerEvent.OVERDUE
        return BrokerEvent.REPORTED_STOPPING if self.is_marked else BrokerEvent.REPORTED_ACTIVE


def judge(sighting: BrokerSighting, timeouts: HeartbeatTimeouts) -> BrokerState:
    """The current state of a broker, by the table."""
    state = INITIAL
    for event in sighting.events(timeouts):
        state = NEXT_STATE[state, event]
    return state


def admit_incarnations(seen: Mapping[str, int], registered: Iterable[tuple[str, int]]) -> dict[str, int]:
    """The newest incarnation of every broker ever seen; an old one, or two brokers under one id, are refused."""
    newest, present = dict(seen), dict[str, int]()
    for broker_id, incarnation in registered:
        if present.setdefault(broker_id, incarnation) != incarnation:
            raise two_brokers_error(broker_id)
        if incarnation < newest.get(broker_id, incarnation):
            raise RefusedError(
                f"broker {broker_id} is registered as incarnation {incarnation}, but {newest[broker_id]} was seen "
                "before",
                "see that no old process of it runs, and that ZooKeeper was not set back to an older state",
            )
        newest[broker_id] = incarnation
    return newest


def two_brokers_error(broker_id: str) -> RefusedError:
    """Two processes use one id, so that nobody can say which of them a step would reach."""
    return RefusedError(
        f"two brokers are registered or own bundles under the id {broker_id}",
        "stop one of them, or give each its own advertised address",
    )
