"""The journal of each plan under /evenkeel/<cluster>/plans: what was done, entry by entry, all of it fenced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kazoo.exceptions import NodeExistsError

from evenkeel.adapters.fence import Fence
from evenkeel.adapters.fenced_transactions import FencedTransactions, FencedWrite
from evenkeel.adapters.zookeeper import (
    Operation,
    TransactionRefusedError,
    UnconfirmedError,
    ZooKeeperSession,
    create,
    set_data,
)
from evenkeel.model.errors import EvenkeelError, FencedOutError, InputError, NotDoneError, RefusedError
from evenkeel.model.run import JournalEntry

# A transaction must stay far below the megabyte that a server takes in one request.
MOST_ENTRIES_TOGETHER = 100


class Journal:
    """What was done for each plan; an entry and the effect that it speaks of are one transaction."""

    def __init__(self, session: ZooKeeperSession, home: str, fence: Fence) -> None:
        self._session = session
        self._plans = f"{home}/plans"
        self._fence = fence
        self._transactions = FencedTransactions(session, fence)
        self._known: set[tuple[str, int]] = set()

    def open(self, plan_id: str) -> None:
        self._session.ensure_path(f"{self._plans}/{plan_id}/steps")

    def entries(self, plan_id: str) -> Mapping[int, JournalEntry]:
        """All entries of a plan by the order of its steps."""
        base = f"{self._plans}/{plan_id}/steps"
        names = self._session.children(base)
        foreign = [name for name in names if not name.isdecimal()]
        if foreign:
            raise InputError(f"{base}/{foreign[0]} is no journal entry", "remove what is not Evenkeel's")
        orders = [int(name) for name in names]
        paths = [self._path(plan_id, order) for order in orders]
        found = {
            order: JournalEntry.decode(node.data, path)
            for order, path, node in zip(orders, paths, self._session.read(paths), strict=True)
            if node is not None
        }
        self._known |= {(plan_id, order) for order in found}
        return found

    def write(self, entry: JournalEntry, effects: Sequence[Operation] = ()) -> None:
        """Write an entry, and the effects that it speaks of, both or neither."""
        (refusal,) = self.write_each([(entry, effects)])
        if refusal is not None:
            raise refusal

    def write_each(self, writes: Sequence[tuple[JournalEntry, Sequence[Operation]]]) -> list[EvenkeelError | None]:
        """Write entries, each with its own effects, one behind the other; answers why some were not written.

        A RefusedError is a matter of that one entry; any other, and a FencedOutError, is one of the whole writer. A
        NotDoneError says that the entry got lost: what it speaks of has to be proved anew.
        """
        prepared = [
            FencedWrite((*effects, self._record(entry)), self._path(entry.plan_id, entry.order), entry.encode())
            for entry, effects in writes
        ]
        answers: list[EvenkeelError | None] = []
        for (entry, _), answer in zip(writes, self._transactions.commit_once(prepared), strict=True):
            if answer is None:
                self._known.add((entry.plan_id, entry.order))
                answers.append(None)
            elif isinstance(answer, UnconfirmedError):
                answers.append(NotDoneError(f"step {entry.order} got lost on its way to ZooKeeper", answer.remedy))
            else:
                answers.append(self._fence.explain(answer) or _explain(answer, entry))
        return answers

    def write_together(self, entries: Sequence[JournalEntry]) -> None:
        """Write entries without effects in as few transactions as possible."""
        for start in range(0, len(entries), MOST_ENTRIES_TOGETHER):
            batch = entries[start : start + MOST_ENTRIES_TOGETHER]
            last = batch[-1]
            operations = tuple(self._record(entry) for entry in batch)
            try:
                self._transactions.commit(FencedWrite(operations, self._path(last.plan_id, last.order), last.encode()))
            except TransactionRefusedError as refusal:
                raise self._fence.explain(refusal) or _explain(refusal, last) from refusal
            self._known |= {(entry.plan_id, entry.order) for entry in batch}

    def _record(self, entry: JournalEntry) -> Operation:
        path = self._path(entry.plan_id, entry.order)
        is_known = (entry.plan_id, entry.order) in self._known
        return set_data("journal", path, entry.encode()) if is_known else create("journal", path, entry.encode())

    def _path(self, plan_id: str, order: int) -> str:
        return f"{self._plans}/{plan_id}/steps/{order:06d}"


def _explain(refusal: TransactionRefusedError, entry: JournalEntry) -> RefusedError:
    if refusal.operation == "destination":
        return RefusedError(f"broker {entry.destination} is not registered", "plan again")
    if isinstance(refusal.error, NodeExistsError):
        return RefusedError(f"step {entry.order} has a journal entry already", "apply the plan again to resume")
    if refusal.operation == "journal":
        return FencedOutError(f"the journal of plan {entry.plan_id[:12]} was removed", "see who did that")
    return RefusedError(f"bundle {entry.bundle} was changed by another hand", "plan again")
