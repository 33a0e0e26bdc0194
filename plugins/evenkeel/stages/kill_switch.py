"""Stop all writing to a cluster, and let it go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

from evenkeel.adapters.kill_switch import KillSwitch
from evenkeel.adapters.zookeeper import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.moments import format_time
from evenkeel.model.orders import Order


def stop_writing(connection: ClusterConnection, who: str, reason: str) -> tuple[Order, bool]:
    """Pull the kill switch; answers the order that stands, and whether it is this one or an earlier one."""
    order = Order(who, format_time(datetime.now(UTC)), reason)
    with _switch(connection) as switch:
        standing = switch.pull(order)
    return standing or order, standing is None


def resume_writing(connection: ClusterConnection) -> Order | None:
    """Let writers go on; answers the order that stood, None where none did."""
    with _switch(connection) as switch:
        return switch.release()


@contextmanager
def _switch(connection: ClusterConnection) -> Iterator[KillSwitch]:
    with ZooKeeperSession(
        connection.zookeeper, connection.timeout_s, connection.timeout_s, connection.security
    ) as session:
        yield KillSwitch(session, connection)
