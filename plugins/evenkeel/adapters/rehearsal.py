"""Whether ZooKeeper lets this user write, asked without writing anything.

A transaction whose last operation cannot succeed is always refused as a whole, but ZooKeeper looks at the rights to
every operation before that one first: what it complains of tells whether the others would have been allowed.
"""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import NoAuthError

from evenkeel.adapters.zookeeper import (
    TransactionRefusedError,
    UnconfirmedError,
    ZooKeeperSession,
    check,
    forbidden,
    set_data,
)

# A request may have a megabyte, and a record has a few hundred bytes.
NODES_A_TRANSACTION = 500
MOST_ATTEMPTS = 3
NO_NODE_IS_EVER_AT = 2**31 - 1


def require_rights(session: ZooKeeperSession, paths: Sequence[str]) -> None:
    """Refuse unless this user may write those of the nodes that exist."""
    for begin in range(0, len(paths), NODES_A_TRANSACTION):
        _rehearse(session, paths[begin : begin + NODES_A_TRANSACTION])


def _rehearse(session: ZooKeeperSession, paths: Sequence[str]) -> None:
    unconfirmed = 0
    while paths:
        nodes = zip(paths, session.read(paths), strict=True)
        # Each node would get the very bytes that it has.
        writes = [set_data("write", path, node.data, node.stat.version) for path, node in nodes if node is not None]
        try:
            session.commit([*writes, check("never", paths[0], NO_NODE_IS_EVER_AT)])
        except UnconfirmedError:
            # Nothing was written whatever became of it, so it may be sent again.
            unconfirmed += 1
            if unconfirmed == MOST_ATTEMPTS:
                raise
            session.await_connection()
        except TransactionRefusedError as refusal:
            if isinstance(refusal.error, NoAuthError):
                raise forbidden(refusal.path) from refusal
            if refusal.operation == "never":
                return
            # Changed or removed since it was read: its rights were looked at first, and were in order.
            paths = [path for path in paths if path != refusal.path]
