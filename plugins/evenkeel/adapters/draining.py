"""Brokers that are to be emptied: a node each under /evenkeel/<cluster>/draining, which every snapshot reads."""

from __future__ import annotations

from collections.abc import Sequence

from kazoo.exceptions import NodeExistsError, NoNodeError

from evenkeel.adapters.zookeeper import TransactionRefusedError, ZooKeeperSession, check, create, delete
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.orders import Order


class Draining:
    """The marks of one cluster; a marked broker counts as Stopping: it is emptied, and receives nothing."""

    def __init__(self, session: ZooKeeperSession, connection: ClusterConnection) -> None:
        self._session = session
        self._home = f"{connection.home}/draining"
        self._registrations = f"{connection.pulsar_root}/loadbalance/brokers"

    def marked(self) -> dict[str, Order]:
        """The brokers that are marked now, and who marked them."""
        names = self._session.children(self._home)
        nodes = self._session.read([self._path(name) for name in names])
        return {name: Order.decode(node.data) for name, node in zip(names, nodes, strict=True) if node is not None}

    def mark(self, brokers: Sequence[str], order: Order) -> None:
        """Mark brokers, all or none; one that is marked already keeps its mark, one that is not registered is refused.

        The registration is checked in the same transaction, so that a slip of the pen leaves no mark behind.
        """
        if unfit := [broker for broker in brokers if not broker or "/" in broker]:
            raise InputError(f"{unfit[0]!r} is not a broker id", "give it as Pulsar lists it, host:port")
        standing = self.marked()
        self._session.ensure_path(self._home)
        operations = [
            operation
            for broker in brokers
            for operation in (
                check(broker, f"{self._registrations}/{broker}"),
                *(() if broker in standing else (create("mark", self._path(broker), order.encode()),)),
            )
        ]
        try:
            self._session.commit(operations)
        except TransactionRefusedError as refusal:
            raise _explain(refusal) from refusal

    def unmark(self, brokers: Sequence[str]) -> list[str]:
        """Take marks away; answers those that were there."""
        standing = [broker for broker in brokers if broker in self.marked()]
        if standing:
            try:
                self._session.commit([delete("mark", self._path(broker)) for broker in standing])
            except TransactionRefusedError as refusal:
                raise _explain(refusal) from refusal
        return standing

    def _path(self, broker: str) -> str:
        return f"{self._home}/{broker}"


def _explain(refusal: TransactionRefusedError) -> RefusedError:
    if isinstance(refusal.error, NoNodeError) and refusal.operation != "mark":
        return RefusedError(
            f"broker {refusal.operation} is not registered", "give the broker's id as Pulsar lists it, host:port"
        )
    if isinstance(refusal.error, NodeExistsError | NoNodeError):
        return RefusedError("another hand changed the marks at the same moment", "run the same command again")
    return RefusedError(
        f"ZooKeeper refused the mark ({refusal})", "see that this user may write below Evenkeel's root, then try again"
    )
