"""The kill switch: the node `stop` under /evenkeel/<cluster>, which no writer can miss.

Pulling it raises the fence in the same transaction. A writer between two looks at `stop` is thereby fenced out: its
next transaction is refused, and it then finds the node and says who pulled the switch.
"""

from __future__ import annotations

from kazoo.exceptions import NodeExistsError, NoNodeError

from evenkeel.adapters.zookeeper import TransactionRefusedError, ZooKeeperSession, create, delete, set_data
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError
from evenkeel.model.orders import Order


class KillSwitch:
    """Stops all writing to a cluster, and lets it go on."""

    def __init__(self, session: ZooKeeperSession, connection: ClusterConnection) -> None:
        self._session = session
        self._fence = f"{connection.home}/fence"
        self._stop = f"{connection.home}/stop"

    def read(self) -> Order | None:
        """The order that stops all writing now, if there is one."""
        (node,) = self._session.read([self._stop])
        return None if node is None else Order.decode(node.data)

    def pull(self, order: Order) -> Order | None:
        """Stop all writing; where it is stopped already, nothing is changed and the standing order is answered."""
        self._session.ensure_path(self._fence)
        raised = set_data("fence", self._fence, f"stopped by {order}".encode())
        try:
            self._session.commit([create("stop", self._stop, order.encode()), raised])
        except TransactionRefusedError as refusal:
            if not isinstance(refusal.error, NodeExistsError):
                raise _cannot_write(refusal) from refusal
            # Where another hand has just let go again, this order is a new one.
            return self.read() or self.pull(order)
        return None

    def release(self) -> Order | None:
        """Let writers go on; answers the order that stood, None where none did."""
        standing = self.read()
        if standing is None:
            return None
        try:
            self._session.commit([delete("stop", self._stop)])
        except TransactionRefusedError as refusal:
            if not isinstance(refusal.error, NoNodeError):
                raise _cannot_write(refusal) from refusal
        return standing


def _cannot_write(refusal: TransactionRefusedError) -> RefusedError:
    return RefusedError(
        f"ZooKeeper refused the order ({refusal})", "see that this user may write below Evenkeel's root, then try again"
    )
