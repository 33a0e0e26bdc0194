"""Transactions under the fence whose outcome is always found out, also when the answer got lost.

Each has a witness: a node that it writes, whose bytes nobody else would write. After a lost answer the witness tells.

    witness has the bytes                       ──▶ done
    witness has not, a guarded node has moved   ──▶ changed by another: refused, as if ZooKeeper had said so
    witness has not, all guarded nodes stand    ──▶ not done: it may be sent again, for it is still conditional

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
        """Do one write, or raise why not."""
        (refusal,) = self.commit_all([write])
        if refusal is not None:
            raise refusal

    def commit_all(self, writes: Sequence[FencedWrite]) -> list[TransactionRefusedError | None]:
        """Send writes one behind the other; answers the refusal of each that ZooKeeper, or another hand, refused."""
        answers: dict[int, TransactionRefusedError | None] = {}
        pending = list(range(len(writes)))
        for _ in range(MOST_ATTEMPTS):
            proofs = self._fence.proofs()
            outcomes = self._session.commit_all([[*proofs, *writes[index].operations] for index in pending])
            unknown = []
            for index, outcome in zip(pending, outcomes, strict=True):
                if isinstance(outcome, UnconfirmedError):
                    unknown.append((index, outcome))
                else:
                    answers[index] = outcome
            if not unknown:
                return [answers[index] for index in range(len(writes))]
            self._session.await_connection()
            pending = self._settle(writes, [index for index, _ in unknown], answers)
            last = unknown[-1][1]
        if pending:
            raise last
        return [answers[index] for index in range(len(writes))]

    def _settle(
        self, writes: Sequence[FencedWrite], unknown: Sequence[int], answers: dict[int, TransactionRefusedError | None]
    ) -> list[int]:
        """Find out what became of writes; answers those that plainly did not happen."""
        paths = sorted({path for index in unknown for path in (writes[index].witness, *writes[index].guards)})
        nodes = dict(zip(paths, self._session.read_latest(paths), strict=True))
        not_done = []
        for index in unknown:
            finding, name = find_outcome(writes[index], nodes)
            if finding is Finding.NOT_DONE:
                not_done.append(index)
            else:
                changed = finding is Finding.CHANGED
                answers[index] = TransactionRefusedError(name, BadVersionError()) if changed else None
        return not_done
