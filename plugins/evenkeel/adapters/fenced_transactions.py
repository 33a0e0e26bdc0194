"""Transactions under the fence whose outcome is always found out, also when the answer got lost.

Each has a witness: a node that it writes, whose bytes nobody else would write. After a lost answer the witness tells.

    witness has the bytes                       ──▶ done
    witness has not, a guarded node has moved   ──▶ changed by another: refused, as if ZooKeeper had said so
    witness has not, all guarded nodes stand    ──▶ not done

What was not done may be sent again, for it is still conditional; but not if it has grown old meanwhile: a step carries
the time at which it was proved, and has to be proved anew.

The nodes are read after a `sync`, so whatever was sent before has happened by then, or never will.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kazoo.exceptions import BadVersionError

from evenkeel.adapters.fence import Fence
from evenkeel.adapters.zookeeper import Node, Operation, TransactionRefusedError, UnconfirmedError, ZooKeeperSession

MOST_ATTEMPTS = 3
ANY_VERSION = -1
Answer = TransactionRefusedError | UnconfirmedError | None


class Finding(StrEnum):
    """What became of a transaction whose answer got lost."""

    DONE = "done"
    NOT_DONE = "not done"
    CHANGED = "changed by another"


@dataclass(frozen=True, slots=True)
class FencedWrite:
    """Operations that happen together, and the node whose bytes prove that they did."""

    operations: tuple[Operation, ...]
    witness: str
    proof: bytes

    @property
    def guards(self) -> Mapping[str, tuple[str, int]]:
        """The nodes that must not have moved: path → name of the operation, version."""
        return {
            operation.path: (operation.name, operation.arguments[-1])
            for operation in self.operations
            if operation.method == "set_data" and operation.arguments[-1] != ANY_VERSION
        }


def find_outcome(write: FencedWrite, nodes: Mapping[str, Node | None]) -> tuple[Finding, str]:
    """Tell from the nodes as they are now what became of a write; names the operation that another hand forestalled."""
    witness = nodes[write.witness]
    if witness is not None and witness.data == write.proof:
        return Finding.DONE, ""
    for path, (name, version) in write.guards.items():
        node = nodes[path]
        if node is None or node.stat.version != version:
            return Finding.CHANGED, name
    return Finding.NOT_DONE, ""


class FencedTransactions:
    """The writer's only way to write: proofs of the fence first, and no outcome left open while the session lives."""

    def __init__(self, session: ZooKeeperSession, fence: Fence) -> None:
        self._session = session
        self._fence = fence

    def commit(self, write: FencedWrite) -> None:
        """Do one write, a few times if need be, or raise why not."""
        for attempt in range(1, MOST_ATTEMPTS + 1):
            (answer,) = self.commit_once([write])
            if answer is None:
                return
            if attempt == MOST_ATTEMPTS or not isinstance(answer, UnconfirmedError):
                raise answer

    def commit_once(self, writes: Sequence[FencedWrite]) -> list[Answer]:
        """Send writes one behind the other; answers why each of them that was not done was not.

        A TransactionRefusedError is a refusal of ZooKeeper, or of another hand. An UnconfirmedError says that the write
        got lost, and surely did not happen.
        """
        proofs = self._fence.proofs()
        answers: list[Answer] = list(self._session.commit_all([[*proofs, *write.operations] for write in writes]))
        unknown = [index for index, answer in enumerate(answers) if isinstance(answer, UnconfirmedError)]
        if unknown:
            self._session.await_connection()
            for index, finding in self._settle(writes, unknown).items():
                answers[index] = finding
        return answers

    def _settle(
        self, writes: Sequence[FencedWrite], unknown: Sequence[int]
    ) -> dict[int, TransactionRefusedError | None]:
        """Find out what became of writes; those that plainly did not happen have no answer."""
        paths = sorted({path for index in unknown for path in (writes[index].witness, *writes[index].guards)})
        nodes = dict(zip(paths, self._session.read_latest(paths), strict=True))
        found: dict[int, TransactionRefusedError | None] = {}
        for index in unknown:
            finding, name = find_outcome(writes[index], nodes)
            if finding is not Finding.NOT_DONE:
                changed = finding is Finding.CHANGED
                found[index] = TransactionRefusedError(name, BadVersionError()) if changed else None
        return found
