"""Stopping the writer of one plan, and no other: its fence is raised, so that its next transaction is refused."""

from __future__ import annotations

from kazoo.exceptions import BadVersionError

from evenkeel.adapters.fencing.fence import REVOKED
from evenkeel.adapters.fencing.journal import JournalReader, Writer
from evenkeel.adapters.zookeeper.nodes import TransactionRefusedError, set_data
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError

MOST_ATTEMPTS = 3


def fence_out(session: ZooKeeperSession, connection: ClusterConnection, plan_id: str, why: str) -> Writer | None:
    """Raise the fence if a writer of this plan is at work, and return that writer; None where none is.

    The fence is raised only at the writer's own epoch: whoever has taken over since is left alone.
    """
    paths = EvenkeelPaths(connection.home)
    for _ in range(MOST_ATTEMPTS):
        writer = JournalReader(session, paths).writer()
        if writer is None or writer.plan_id != plan_id:
            return None
        try:
            session.commit([set_data("fence", paths.fence, REVOKED + why.encode(), writer.epoch)])
            return writer
        except TransactionRefusedError as refusal:
            if not isinstance(refusal.error, BadVersionError):
                raise RefusedError(
                    f"ZooKeeper refused to raise the fence ({refusal})",
                    "grant this user write permission below Evenkeel's root, or stop all writing with `evenkeel stop`",
                ) from refusal
    raise RefusedError("the writer changed again and again", "run the same command again")
