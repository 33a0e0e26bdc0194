"""When a fault strikes: the n-th request of a kind, and one of four places in it.

before     the request is held: it has not reached the server
inside     half of its bytes have
after      the server has done it, the reply is held
done       the writer has the reply
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from faults.frames import RequestKind


class Phase(StrEnum):
    """Where in the course of a request something happens."""

    BEFORE = "before"
    INSIDE = "inside"
    AFTER = "after"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class Moment:
    """A place in the course of a run: the n-th request of a kind, and where in it."""

    kind: RequestKind
    number: int
    phase: Phase

    def __str__(self) -> str:
        return f"{self.phase} {self.kind} {self.number}"


@dataclass(frozen=True, slots=True)
class ByteMoment:
    """A place in the stream: after so many bytes, to the server or from it."""

    count: int
    is_to_server: bool

    def __str__(self) -> str:
        return f"byte {self.count} {'to' if self.is_to_server else 'from'} the server"


class Struck(Protocol):
    """The connection that a fault strikes at."""

    is_configuration: bool
    """Whether it leads to the configuration store."""
    is_kept: bool

    @property
    def session(self) -> tuple[int, bytes] | None: ...

    def cut(self) -> None: ...

    def rehome(self) -> None: ...


Action = Callable[[Struck, str], None]


@dataclass(slots=True)
class Script:
    """What happens when; it happens once, and only to the writer that is under test."""

    moment: Moment | ByteMoment | None = None
    action: Action = lambda connection, bundle: None
    seen: Counter[RequestKind] = field(default_factory=Counter)
    to_server_bytes: int = 0
    from_server_bytes: int = 0
    has_fired: bool = False
    is_over: bool = False
    """Whether the writer under test has ended: what others send is not counted."""
    pace_s: float = 0.0
    """How long every step's request is held, so that a wave takes its time."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def claims(self, kind: RequestKind) -> Phase | None:
        """Count a request, and return where in it the fault strikes; only one thread is ever told."""
        with self.lock:
            if self.is_over:
                return None
            self.seen[kind] += 1
            wanted = self.moment
            if self.has_fired or not isinstance(wanted, Moment):
                return None
            if (wanted.kind, wanted.number) != (kind, self.seen[kind]):
                return None
            self.has_fired = True
            return wanted.phase

    def claims_bytes(self, count: int, is_to_server: bool) -> int | None:
        """Count bytes; where the wanted one is among them, how many of them come before it."""
        with self.lock:
            before = self.to_server_bytes if is_to_server else self.from_server_bytes
            if is_to_server:
                self.to_server_bytes += count
            else:
                self.from_server_bytes += count
            wanted = self.moment
            if not isinstance(wanted, ByteMoment) or wanted.is_to_server != is_to_server or self.has_fired:
                return None
            if before + count < wanted.count:
                return None
            self.has_fired = True
            return max(wanted.count - before, 0)

    def end(self) -> None:
        """Count nothing any more, and strike nobody."""
        with self.lock:
            self.is_over = True
