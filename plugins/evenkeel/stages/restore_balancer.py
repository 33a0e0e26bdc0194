"""Switch Pulsar's own balancer back on where a writer died before it could."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evenkeel.adapters.fencing.journal import JournalReader
from evenkeel.adapters.fencing.left_switches import describe_left_off
from evenkeel.adapters.fencing.native_balancer import Restoration
from evenkeel.adapters.fencing.step_writers import Guards
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession, open_session
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError, UnavailableError
from evenkeel.model.run import PlanStatus
from evenkeel.model.settings import Settings
from evenkeel.model.timestamps import format_time
from evenkeel.stages.kill_switch import require_known_cluster

_NOT_RESTORED = "if Pulsar's balancer was left off, it is not restored"
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class RestoredBalancer:
    """What a dead writer had switched off: since when, by which plan, what it is again, and what was left alone."""

    plan_id: str
    since: str
    description: str
    restored: Mapping[str, str | None]
    warnings: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "plan_id": self.plan_id,
            "since": self.since,
            "restored": dict(self.restored),
            "warnings": list(self.warnings),
        }

    def sentences(self) -> list[str]:
        """What to tell: how long the balancer was off and by whom, then each switch."""
        switches = [
            f"{key} is not set any more, as before" if value is None else f"{key} is {value} again"
            for key, value in self.restored.items()
        ]
        return [self.description, *switches, *self.warnings]


def restore_balancer(connection: ClusterConnection, settings: Settings) -> list[RestoredBalancer]:
    """Restore what dead writers left off; returns nothing where nothing was. Refused while a writer lives."""
    with open_session(connection, settings.session_timeout_s) as session:
        paused = _find_paused(session, connection)
        if not paused:
            # Nothing to do may also mean that the cluster's name is mistyped.
            require_known_cluster(connection, session)
            return []
        return _restore(session, connection, settings, paused[0].plan_id)


def restore_unless_writing(connection: ClusterConnection, settings: Settings) -> list[RestoredBalancer]:
    """Like `restore_balancer`, but while a writer lives there is nothing to restore."""
    with open_session(connection, settings.session_timeout_s) as session:
        paused = _find_paused(session, connection)
        if not paused:
            return []
        if session.stat(EvenkeelPaths(connection.home).writer) is not None:
            log.info("a writer is at work; it restores Pulsar's balancer itself")
            return []
        return _restore(session, connection, settings, paused[0].plan_id)


def restore_first(connection: ClusterConnection, settings: Settings) -> None:
    """Restore what dead writers left off before a command goes on, and say so; failing at that only adds a warning."""
    try:
        for restored in restore_unless_writing(connection, settings):
            for sentence in restored.sentences():
                log.warning("%s", sentence)
    except UnavailableError:
        # The command itself would wait for the same server, and fail.
        raise
    except EvenkeelError as error:
        log.warning("%s: %s", _NOT_RESTORED, error)


def restore_before_refusal(connection: ClusterConnection, settings: Settings) -> None:
    """Restore what dead writers left off before a command is refused, whose own reason must not be hidden."""
    try:
        restore_first(connection, settings)
    except UnavailableError as error:
        log.warning("%s: %s", _NOT_RESTORED, error)


def _find_paused(session: ZooKeeperSession, connection: ClusterConnection) -> list[PlanStatus]:
    found = JournalReader(session, EvenkeelPaths(connection.home)).statuses().values()
    return [status for status in found if status is not None and status.switches is not None]


def _restore(
    session: ZooKeeperSession, connection: ClusterConnection, settings: Settings, plan_id: str
) -> list[RestoredBalancer]:
    guards = Guards.of(session, connection, settings)
    guards.fence.acquire(plan_id)
    try:
        # Read again: whoever held the fence until now may have restored everything.
        paused = _find_paused(session, connection)
        return [_describe(status, guards.native.restore(status)) for status in paused]
    finally:
        guards.fence.release()


def _describe(before: PlanStatus, restoration: Restoration) -> RestoredBalancer:
    since = format_time(datetime.fromtimestamp(before.paused_since_ms / 1000, UTC))
    return RestoredBalancer(
        before.plan_id, since, describe_left_off(before), restoration.restored, restoration.warnings
    )
