"""Whether ZooKeeper's ACLs would let this user write, found out without writing."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import NoAuthError

from evenkeel.adapters.zookeeper.nodes import Operation, TransactionRefusedError, check
from evenkeel.adapters.zookeeper.session import ZooKeeperSession

NO_NODE_IS_EVER_AT = 2**31 - 1


def find_forbidden(session: ZooKeeperSession, operations: Sequence[Operation]) -> str | None:
    """The first node that an operation may not touch; None where ZooKeeper would allow all of them.

    A transaction whose last operation cannot succeed is always refused as a whole, but ZooKeeper judges the operations
    in order, permissions included: what it complains about tells whether those before would have been allowed.
    """
    try:
        session.commit([*operations, check("never", "/", NO_NODE_IS_EVER_AT)])
    except TransactionRefusedError as refusal:
        return refusal.path if isinstance(refusal.error, NoAuthError) else None
    raise AssertionError("a transaction that checks an impossible version was accepted")
