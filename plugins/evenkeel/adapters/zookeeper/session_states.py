"""The life of a ZooKeeper session as a state machine, and what a caller may assume in each state.

                     connected                    disconnected
    (start) SUSPENDED ────────▶ CONNECTED ──────────────────────▶ SUSPENDED
                │                   │  ▲                            │   │
                │                   │  └───────── connected ────────┘   │ expired, closed,
                │                   │                                   │ or overdue
                └──── expired ──────┴──────────────▶ LOST ◀─────────────┘

CONNECTED  what is read is current, what is confirmed has happened
SUSPENDED  the session may still live: nothing new is begun, what was sent may have happened or not
LOST       for good: whatever was cached, watched or held with this session is worthless now

kazoo takes a new session after a lost one and reports CONNECTED again; here a lost session stays lost. A client that
is cut off does not learn of its expiry, so a suspension that outlasts the session's time-out counts as one.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from enum import StrEnum


class SessionState(StrEnum):
    """What is known of a session."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class SessionEvent(StrEnum):
    """What happens to a session."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    EXPIRED = "expired"
    CLOSED = "closed"
    OVERDUE = "overdue"


_S, _E = SessionState, SessionEvent
TRANSITIONS: Mapping[tuple[SessionState, SessionEvent], SessionState] = {
    (_S.CONNECTED, _E.CONNECTED): _S.CONNECTED,
    (_S.CONNECTED, _E.DISCONNECTED): _S.SUSPENDED,
    (_S.CONNECTED, _E.EXPIRED): _S.LOST,
    (_S.CONNECTED, _E.CLOSED): _S.LOST,
    # An alarm that goes off after the connection is back means nothing.
    (_S.CONNECTED, _E.OVERDUE): _S.CONNECTED,
    (_S.SUSPENDED, _E.CONNECTED): _S.CONNECTED,
    (_S.SUSPENDED, _E.DISCONNECTED): _S.SUSPENDED,
    (_S.SUSPENDED, _E.EXPIRED): _S.LOST,
    (_S.SUSPENDED, _E.CLOSED): _S.LOST,
    (_S.SUSPENDED, _E.OVERDUE): _S.LOST,
    **{(_S.LOST, event): _S.LOST for event in SessionEvent},
}


class SessionMachine:
    """The state of one session; the client's thread feeds it, the writer's thread reads it."""

    def __init__(self, longest_suspension_s: float, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._longest_suspension_s = longest_suspension_s
        self._monotonic_s = monotonic_s
        self._changed = threading.Condition()
        self._state = SessionState.SUSPENDED
        # Before it was connected for the first time, a session has nothing to lose.
        self._since_s = math.inf

    @property
    def state(self) -> SessionState:
        with self._changed:
            self._ring_if_overdue()
            return self._state

    @property
    def connected_for_s(self) -> float:
        """How long the session has been connected without a break; 0 while it is not."""
        with self._changed:
            is_connected = self._state is SessionState.CONNECTED
            return self._monotonic_s() - self._since_s if is_connected else 0.0

    def take(self, event: SessionEvent) -> SessionState:
        """Apply an event and return the new state."""
        with self._changed:
            self._ring_if_overdue()
            self._enter(TRANSITIONS[self._state, event])
            return self._state

    def wait_while_suspended(self) -> SessionState:
        """Wait until the session is connected again or lost; it is lost after one time-out at the latest."""
        with self._changed:
            while self._state is SessionState.SUSPENDED:
                self._ring_if_overdue()
                if self._state is SessionState.SUSPENDED:
                    left_s = self._since_s + self._longest_suspension_s - self._monotonic_s()
                    self._changed.wait(min(left_s, threading.TIMEOUT_MAX))
            return self._state

    def _ring_if_overdue(self) -> None:
        is_suspended = self._state is SessionState.SUSPENDED
        if is_suspended and self._monotonic_s() - self._since_s >= self._longest_suspension_s:
            self._enter(TRANSITIONS[self._state, SessionEvent.OVERDUE])

    def _enter(self, state: SessionState) -> None:
        if state is not self._state:
            self._state, self._since_s = state, self._monotonic_s()
            self._changed.notify_all()
