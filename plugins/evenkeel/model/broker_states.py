"""Brokers as KIP-343 sees them: the states that a decider keeps for them, and which incarnation it accepts.

Evenkeel is the decider. A broker's load reports are its heartbeats. Its *target* is what it or its operator wants:
Active, or Stopping while it is under `draining/` or shuts down. Its *current* state is what the decider concludes, by
the table below, which is `NEXT_STATE`.

    current   │ registered  reported,     reported,        marked    unmarked  overdue   unregistered
              │ anew        wants Active  wants Stopping   to stop
    ──────────┼──────────────────────────────────────────────────────────────────────────────────────
    Initial   │ Initial     Active        Stopping         Stopping  Initial   Inactive  Inactive
    Active    │ Initial     Active        Stopping         Stopping  Active    Inactive  Inactive
    Inactive  │ Initial     Active        Stopping         Stopping  Inactive  Inactive  Inactive
    Stopping  │ Initial     Active        Stopping         Stopping  Initial   Inactive  Inactive

Only a report makes a broker Active: after its mark is removed, it is Initial until it reports. A silent broker is
Inactive, so that nobody waits for it, unless it is marked: a sick broker is what people drain, and it needs no report
to be emptied.

    state      receives bundles   serves what it has
    Initial    no                 yes
    Active     yes                yes
    Inactive   no                 finishes what it has, if it runs at all
    Stopping   no                 yes, until it is emptied

There are two timeouts. The decider's is the shorter one: a broker that cannot report is declared Inactive before it
fences itself and accepts nothing new. Otherwise bundles would be sent to a broker that refuses them.

An incarnation is the change (zxid) by which the broker registered, so a later one is larger. One older than the newest
seen comes from an old process or an old copy of ZooKeeper, and is never accepted. A newer one voids decisions about the
old one.
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
    """What a decider learns about a broker."""

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
    INACTIVE: (INITIAL, ACTIVE, STOPPING, STOPPING, INACTIVE, INACTIVE, INACTIVE),
    STOPPING: (INITIAL, ACTIVE, STOPPING, STOPPING, INITIAL, INACTIVE, INACTIVE),
}
NEXT_STATE: Final[Mapping[tuple[BrokerState, BrokerEvent], BrokerState]] = {
    (current, event): target for current, row in _ROWS.items() for event, target in zip(BrokerEvent, row, strict=True)
}
"""The table of the module's docstring: current state and event → next state."""


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
        """Whether the decider stops waiting; a report from the future comes from a broken clock and does not count."""
        return abs(report_age_s) > self.decider_s

    def is_fenced(self, report_age_s: float) -> bool:
        """Whether the broker itself accepts nothing new."""
        return report_age_s > self.broker_s


@dataclass(frozen=True, slots=True)
class BrokerSighting:
    """What is known about a broker at one moment."""

    is_registered: bool
    report_age_s: float | None
    is_marked: bool

    @property
    def target(self) -> BrokerState:
        """What the broker, or its operator, wants it to be."""
        return STOPPING if self.is_marked else ACTIVE

    def events(self, timeouts: HeartbeatTimeouts) -> tuple[BrokerEvent, ...]:
        """The events by which a decider that starts from nothing would learn this."""
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
    """The newest incarnation of every broker; an older one, or two brokers with one id, are refused."""
    newest, present = dict(seen), dict[str, int]()
    for broker_id, incarnation in registered:
        if present.setdefault(broker_id, incarnation) != incarnation:
            raise two_brokers_error(broker_id)
        if incarnation < newest.get(broker_id, incarnation):
            raise RefusedError(
                f"broker {broker_id} is registered as incarnation {incarnation}, but {newest[broker_id]} was seen "
                "before",
                "check that no old process of it is running, and that ZooKeeper was not restored from a backup",
            )
        newest[broker_id] = incarnation
    return newest


def two_brokers_error(broker_id: str) -> RefusedError:
    """The error for two processes with one id: a step could reach either of them."""
    return RefusedError(
        f"two brokers are registered or own bundles under the id {broker_id}",
        "stop one of them, or give each its own advertised address",
    )
