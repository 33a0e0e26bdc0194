"""What a cluster's ZooKeeper says right now: kill switch, drain marks, paused balancer, and the writer at work.

A page that many people keep open asks often, so an answer counts for a moment. If ZooKeeper does not answer, the page
shows why and still shows what is in the lake.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from evenkeel.adapters.fencing.directives import Draining, KillSwitch
from evenkeel.adapters.fencing.journal import JournalReader
from evenkeel.adapters.fencing.live_writer import LiveWriter
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import open_session
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.directives import Directive
from evenkeel.model.errors import EvenkeelError
from evenkeel.model.run import JournalEntry, PlanStatus
from evenkeel.model.timestamps import format_time

COUNTS_FOR_S = 1.5
# A page should not wait as long as a writer does.
LONGEST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class LiveState:
    """One look at a cluster's ZooKeeper; with `error`, it could not be read, and all else is empty."""

    stop: Directive | None
    marks: dict[str, Directive]
    writer: LiveWriter | None
    statuses: dict[str, PlanStatus | None]
    error: str = ""

    def to_json(self) -> dict[str, Any]:
        return {
            "error": self.error or None,
            "stop": None if self.stop is None else self.stop.to_json(),
            "marks": [{"broker": broker, **mark.to_json()} for broker, mark in sorted(self.marks.items())],
            "writer": None if self.writer is None else self.writer.to_json(),
            "switches": [self._describe_switches(status) for status in self._paused],
        }

    @property
    def _paused(self) -> list[PlanStatus]:
        return [status for status in self.statuses.values() if status is not None and status.switches is not None]

    def _describe_switches(self, status: PlanStatus) -> dict[str, Any]:
        """Pulsar's own balancer is off: since when, for which plan, and whether its writer lives to restore it."""
        since = datetime.fromtimestamp(status.paused_since_ms / 1000, UTC)
        is_alive = self.writer is not None and self.writer.plan_id == status.plan_id
        return {"plan_id": status.plan_id, "since": format_time(since), "writer_is_alive": is_alive}


_NOTHING = LiveState(None, {}, None, {})
_known: dict[ClusterConnection, tuple[float, LiveState]] = {}
_lock = threading.Lock()


def read_live(connection: ClusterConnection) -> LiveState:
    """What ZooKeeper says now, or said a moment ago."""
    with _lock:
        found = _known.get(connection)
    if found is not None and time.monotonic() - found[0] < COUNTS_FOR_S:
        return found[1]
    state = _read(connection)
    with _lock:
        _known[connection] = (time.monotonic(), state)
    return state


def forget_live(connection: ClusterConnection) -> None:
    """Read anew next time, because this process has just changed something."""
    with _lock:
        _known.pop(connection, None)


def read_journal(connection: ClusterConnection, plan_id: str) -> tuple[list[JournalEntry], str]:
    """A plan's journal, and why it cannot be read; one of the two is empty."""
    try:
        with open_session(_hasty(connection)) as session:
            entries = JournalReader(session, EvenkeelPaths(connection.home)).entries(plan_id)
    except EvenkeelError as error:
        return [], str(error)
    return list(entries.values()), ""


def _read(connection: ClusterConnection) -> LiveState:
    paths = EvenkeelPaths(connection.home)
    try:
        with open_session(_hasty(connection)) as session:
            (writer,) = session.get([paths.writer])
            return LiveState(
                KillSwitch(session, connection).read(),
                Draining(session, connection).marked(),
                None if writer is None else LiveWriter.decode(writer),
                JournalReader(session, paths).statuses(),
            )
    except EvenkeelError as error:
        return replace(_NOTHING, error=str(error))


def _hasty(connection: ClusterConnection) -> ClusterConnection:
    return replace(connection, timeout_s=min(connection.timeout_s, LONGEST_WAIT_S))
