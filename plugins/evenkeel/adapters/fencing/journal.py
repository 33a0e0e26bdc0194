"""The journal of each plan under /evenkeel/<cluster>/plans: reading it, and the fenced transactions that write it.

A fenced transaction has a witness: a node that it writes, with bytes that nobody else would write. When the answer to a
transaction gets lost, the witness tells what became of it.

    witness has the bytes                             ──▶ done
    witness has not, a guarded node has changed       ──▶ changed by another: refused, as if ZooKeeper had said so
    witness has not, all guarded nodes are unchanged  ──▶ not done

What was not done may be sent again, since it is still conditional. A step may not: it carries the time at which it was
proved, and has to be proved again. The nodes are read after a `sync`, so whatever was sent before has happened by then,
or never will.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kazoo.exceptions import BadVersionError, NodeExistsError

from evenkeel.adapters.cluster.migration import BEGAN
from evenkeel.adapters.fencing.fence import Fence
from evenkeel.adapters.zookeeper.nodes import Operation, TransactionRefusedError, ZNode, create, set_data
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.canonical import short_id
from evenkeel.model.errors import (
    EvenkeelError,
    FencedOutError,
    InputError,
    NotDoneError,
    RefusedError,
    RunStoppedError,
    UnconfirmedError,
)
from evenkeel.model.outside_json import MALFORMED, parse_json, require_types
from evenkeel.model.run import JournalEntry, PlanStatus

MOST_ATTEMPTS = 3
# A transaction must stay far below the megabyte that a server takes in one request.
MOST_ENTRIES_TOGETHER = 100
log = logging.getLogger(__name__)
Answer = TransactionRefusedError | UnconfirmedError | None


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer that is at work now."""

    holder: str
    plan_id: str
    epoch: int


class JournalReader:
    """What writers left under /evenkeel/<cluster>: the status and journal of each plan, and who is writing now."""

    def __init__(self, session: ZooKeeperSession, paths: EvenkeelPaths) -> None:
        self._session = session
        self._paths = paths

    def statuses(self) -> dict[str, PlanStatus | None]:
        """The status of every plan that was ever begun and is still kept; None where its node says nothing yet.

        A node that this version cannot read says nothing about the other plans: it is left out with a warning.
        """
        plan_ids = self._session.child_names(self._paths.plans)
        nodes = self._session.get([self._paths.plan(plan_id) for plan_id in plan_ids])
        found: dict[str, PlanStatus | None] = {}
        for plan_id, node in zip(plan_ids, nodes, strict=True):
            if node is not None:
                try:
                    found[plan_id] = PlanStatus.decode(node.data, node.path) if node.data else None
                except InputError as error:
                    log.warning("the status of plan %s is left alone: %s", short_id(plan_id), error)
        return found

    def require_readable(self, plan_id: str) -> None:
        """Refuse to go on with a plan whose status or journal this version cannot read."""
        (node,) = self._session.get([self._paths.plan(plan_id)])
        if node is not None and node.data:
            PlanStatus.decode(node.data, node.path)
        self.entries(plan_id)

    def entries(self, plan_id: str) -> dict[int, JournalEntry]:
        """A plan's journal by the order of its steps; empty where nothing was begun."""
        base = self._paths.steps(plan_id)
        names = self._session.child_names(base)
        foreign = [name for name in names if not name.isdecimal()]
        if foreign:
            raise InputError(f"{base}/{foreign[0]} is not a journal entry", "remove what Evenkeel did not write")
        nodes = self._session.get([f"{base}/{name}" for name in names])
        found = {
            int(name): JournalEntry.decode(node.data, node.path)
            for name, node in zip(names, nodes, strict=True)
            if node is not None
        }
        return dict(sorted(found.items()))

    def writer(self) -> Writer | None:
        """Who writes now, if anybody does."""
        (node,) = self._session.get([self._paths.writer])
        if node is None:
            return None
        try:
            fields = parse_json(node.data)
            require_types(Writer, fields)
            return Writer(fields["holder"], fields["plan_id"], fields["epoch"])
        except MALFORMED as error:
            raise InputError(
                f"{node.path} was not written by this version of Evenkeel ({error!r})", "wait until it is gone"
            ) from error


class WriteOutcome(StrEnum):
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
        """The nodes that must not have changed: path → name of the operation, version."""
        return {
            operation.path: (operation.name, version)
            for operation in self.operations
            if (version := operation.guarded_version) is not None
        }


def find_outcome(write: FencedWrite, nodes: Mapping[str, ZNode | None]) -> tuple[WriteOutcome, str]:
    """What became of a write, by the nodes as they are now; names the operation that somebody else's change beat."""
    witness = nodes[write.witness]
    if witness is not None and witness.data == write.proof:
        return WriteOutcome.DONE, ""
    for path, (name, version) in write.guards.items():
        node = nodes[path]
        if node is None or node.version != version:
            return WriteOutcome.CHANGED, name
    return WriteOutcome.NOT_DONE, ""


class FencedTransactions:
    """The writer's only way to write: the fence is checked first, and no outcome stays open while the session lives."""

    def __init__(self, session: ZooKeeperSession, fence: Fence) -> None:
        self._session = session
        self._fence = fence

    def commit(self, write: FencedWrite) -> None:
        """Do one write, trying again if it got lost, or raise why not."""
        for attempt in range(1, MOST_ATTEMPTS + 1):
            (answer,) = self.commit_once([write])
            if answer is None:
                return
            if attempt == MOST_ATTEMPTS or not isinstance(answer, UnconfirmedError):
                raise answer

    def commit_once(self, writes: Sequence[FencedWrite]) -> list[Answer]:
        """Send writes one after the other; returns for each None if it was done, else why it was not.

        A TransactionRefusedError means that ZooKeeper, or somebody else's change, refused the write. An
        UnconfirmedError means that the write got lost and certainly did not happen.
        """
        proofs = self._fence.proofs()
        answers: list[Answer] = list(self._session.commit_all([[*proofs, *write.operations] for write in writes]))
        unknown = [index for index, answer in enumerate(answers) if isinstance(answer, UnconfirmedError)]
        if unknown:
            self._session.await_connection()
            for index, outcome in self._find_outcomes(writes, unknown).items():
                answers[index] = outcome
        return answers

    def _find_outcomes(
        self, writes: Sequence[FencedWrite], unknown: Sequence[int]
    ) -> dict[int, TransactionRefusedError | None]:
        """What became of writes; those that certainly did not happen are left out."""
        paths = sorted({path for index in unknown for path in (writes[index].witness, *writes[index].guards)})
        nodes = dict(zip(paths, self._session.get_latest(paths), strict=True))
        found: dict[int, TransactionRefusedError | None] = {}
        for index in unknown:
            outcome, name = find_outcome(writes[index], nodes)
            if outcome is not WriteOutcome.NOT_DONE:
                changed = outcome is WriteOutcome.CHANGED
                found[index] = TransactionRefusedError(name, BadVersionError()) if changed else None
        return found


class Journal:
    """What was done for each plan; an entry and the effect that it records are one transaction.

    A caller that writes entries with effects does it in three moves: `prepare` each, commit all of them by
    `transactions`, then hand the answers to `note_answers`.
    """

    def __init__(self, session: ZooKeeperSession, paths: EvenkeelPaths, fence: Fence) -> None:
        self._session = session
        self._paths = paths
        self._fence = fence
        self._reader = JournalReader(session, paths)
        self._known: set[tuple[str, int]] = set()
        self.transactions = FencedTransactions(session, fence)

    def open(self, plan_id: str) -> None:
        self._session.ensure_path(self._paths.steps(plan_id))

    def require_readable(self, plan_id: str) -> None:
        self._reader.require_readable(plan_id)

    def entries(self, plan_id: str) -> Mapping[int, JournalEntry]:
        """All entries of a plan by the order of its steps."""
        found = self._reader.entries(plan_id)
        self._known |= {(plan_id, order) for order in found}
        return found

    def prepare(self, entry: JournalEntry, effects: Sequence[Operation] = ()) -> FencedWrite:
        """The transaction that writes an entry together with the effects that it records."""
        return FencedWrite((*effects, self._record(entry)), self._path(entry), entry.encode())

    def note_answers(self, entries: Sequence[JournalEntry], answers: Sequence[Answer]) -> dict[int, EvenkeelError]:
        """Why entries were not written, by the order of their steps; nothing for those that were.

        A RefusedError concerns that one entry; a FencedOutError, or any other error, concerns the whole writer. A
        NotDoneError means that the entry got lost: what it records has to be proved again.
        """
        refusals: dict[int, EvenkeelError] = {}
        for entry, answer in zip(entries, answers, strict=True):
            if answer is None:
                self._known.add((entry.plan_id, entry.order))
            elif isinstance(answer, UnconfirmedError):
                refusals[entry.order] = NotDoneError(
                    f"step {entry.order} got lost on its way to ZooKeeper", answer.remedy
                )
            else:
                refusals[entry.order] = self._fence.explain(answer) or _explain(answer, entry)
        return refusals

    def write_together(self, entries: Sequence[JournalEntry]) -> None:
        """Write entries without effects in as few transactions as possible."""
        for start in range(0, len(entries), MOST_ENTRIES_TOGETHER):
            batch = entries[start : start + MOST_ENTRIES_TOGETHER]
            last = batch[-1]
            operations = tuple(self._record(entry) for entry in batch)
            try:
                self.transactions.commit(FencedWrite(operations, self._path(last), last.encode()))
            except TransactionRefusedError as refusal:
                raise self._fence.explain(refusal) or _explain(refusal, last) from refusal
            self._known |= {(entry.plan_id, entry.order) for entry in batch}

    def _record(self, entry: JournalEntry) -> Operation:
        is_known = (entry.plan_id, entry.order) in self._known
        return (set_data if is_known else create)("journal", self._path(entry), entry.encode())

    def _path(self, entry: JournalEntry) -> str:
        return self._paths.step(entry.plan_id, entry.order)


def _explain(refusal: TransactionRefusedError, entry: JournalEntry) -> EvenkeelError:
    if refusal.operation == "migration":
        return RunStoppedError(BEGAN, "wait until it has ended")
    if refusal.operation == "destination" and isinstance(refusal.error, BadVersionError):
        return RefusedError(f"broker {entry.destination} has restarted since the plan was made", "plan again")
    if refusal.operation == "destination":
        return RefusedError(f"broker {entry.destination} is not registered", "plan again")
    if isinstance(refusal.error, NodeExistsError):
        return RefusedError(f"step {entry.order} already has a journal entry", "apply the plan again to resume")
    if refusal.operation == "journal":
        return FencedOutError(f"the journal of plan {short_id(entry.plan_id)} was removed", "find out who removed it")
    return RefusedError(f"bundle {entry.bundle} was changed by somebody else", "plan again")
