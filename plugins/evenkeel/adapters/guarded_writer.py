"""The guarded writer's nodes under /evenkeel/<cluster>: fence, writer, stop, and a journal for each plan.

The fence's *version* is the epoch. Taking the fence raises it; every later transaction checks it, so a writer
that was overtaken can read but never write. The ephemeral node `writer` ties an epoch to a living session: each
transaction checks it too, so a session that ZooKeeper has given up cannot write even if its client lives on.
"""

from __future__ import annotations

import json
import logging
import os
import socket
import time
import uuid
from collections.abc import Mapping, Sequence

from kazoo.exceptions import NodeExistsError

from evenkeel.adapters.zookeeper import (
    Operation,
    TransactionRefusedError,
    ZooKeeperSession,
    check,
    create,
    delete,
    set_data,
)
from evenkeel.model.errors import EvenkeelError, FencedOutError, RefusedError
from evenkeel.model.run import JournalEntry
from evenkeel.model.settings import Settings

POLL_S = 0.2
log = logging.getLogger(__name__)


class Fence:
    """Who may write, decided by ZooKeeper."""

    def __init__(self, session: ZooKeeperSession, home: str, settings: Settings) -> None:
        self._session = session
        self._fence = f"{home}/fence"
        self._writer = f"{home}/writer"
        self._settings = settings
        self._epoch: int | None = None

    def acquire(self, plan_id: str) -> int:
        """Raise the epoch in one transaction with the proof that this session lives; refuse beside another writer."""
        self._session.ensure_path(self._fence)
        self._wait_for_other_writer()
        (fence,) = self._session.read([self._fence])
        assert fence is not None
        token = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"
        holder = json.dumps({"holder": token, "plan_id": plan_id, "epoch": fence.stat.version + 1})
        before_s = time.time()
        try:
            self._session.commit(
                [
                    set_data("fence", self._fence, token.encode(), fence.stat.version),
                    create("writer", self._writer, holder.encode(), ephemeral=True),
                ]
            )
        except TransactionRefusedError as refusal:
            raise RefusedError("another writer took the fence at the same moment", "try again later") from refusal
        self._epoch = int(fence.stat.version) + 1
        self._require_good_clock(before_s)
        log.info("took the fence at epoch %d", self._epoch)
        return self._epoch

    def proofs(self) -> list[Operation]:
        """What every transaction of this writer begins with."""
        if self._epoch is None:
            raise FencedOutError("this writer does not hold the fence", "acquire it first")
        return [check("fence", self._fence, self._epoch), check("writer", self._writer)]

    def release(self) -> None:
        """Let the next writer in at once; the epoch is spent."""
        if self._epoch is None:
            return
        proof, self._epoch = check("fence", self._fence, self._epoch), None
        try:
            # Checked, so that a late release never removes the node of the writer that came after.
            self._session.commit([proof, delete("writer", self._writer)])
        except (EvenkeelError, TransactionRefusedError) as error:
            # The node is ephemeral: where it cannot be removed now, it goes with the session.
            log.warning("the writer's node is left to the end of its session: %s", error)

    def _wait_for_other_writer(self) -> None:
        """A writer that died leaves its node for one session time-out; one that outlives that is alive."""
        deadline_s = time.monotonic() + self._settings.session_timeout_s
        while True:
            (node,) = self._session.read([self._writer])
            if node is None:
                return
            if time.monotonic() > deadline_s:
                raise RefusedError(
                    f"another writer is at work: {node.data.decode(errors='replace')}",
                    "wait until it has ended, or end it",
                )
            time.sleep(POLL_S)

    def _require_good_clock(self, before_s: float) -> None:
        """Pulsar's leader overrides a step whose timestamp looks old, so a clock that is off must not write."""
        after_s = time.time()
        (node,) = self._session.read([self._writer])
        if node is None:
            raise FencedOutError("this writer's session has expired", "run the same command again")
        cluster_s = node.stat.ctime / 1000
        offset_s = max(before_s - cluster_s, cluster_s - after_s, 0.0)
        if offset_s > self._settings.clock_offset_limit_s:
            self.release()
            raise RefusedError(
                f"this machine's clock is {offset_s:.1f} s off ZooKeeper's, the limit is "
                f"{self._settings.clock_offset_limit_s:.1f} s",
                "synchronise the clocks",
            )


class Journal:
    """What was done for each plan, entry by entry; every write is fenced."""

    def __init__(self, session: ZooKeeperSession, home: str, fence: Fence) -> None:
        self._session = session
        self._plans = f"{home}/plans"
        self._fence = fence
        self._known: set[tuple[str, int]] = set()

    def open(self, plan_id: str) -> None:
        self._session.ensure_path(f"{self._plans}/{plan_id}/steps")

    def entries(self, plan_id: str) -> Mapping[int, JournalEntry]:
        """All entries of a plan by the order of its steps."""
        orders = [int(name) for name in self._session.children(f"{self._plans}/{plan_id}/steps")]
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
        path = self._path(entry.plan_id, entry.order)
        is_known = (entry.plan_id, entry.order) in self._known
        record = set_data("journal", path, entry.encode()) if is_known else create("journal", path, entry.encode())
        try:
            self._session.commit([*self._fence.proofs(), *effects, record])
        except TransactionRefusedError as refusal:
            raise _explain(refusal, entry) from refusal
        self._known.add((entry.plan_id, entry.order))

    def _path(self, plan_id: str, order: int) -> str:
        return f"{self._plans}/{plan_id}/steps/{order:06d}"


def _explain(refusal: TransactionRefusedError, entry: JournalEntry) -> RefusedError:
    if refusal.operation in ("fence", "writer"):
        return FencedOutError(
            f"another writer has taken over, or this one's session expired ({refusal})",
            "let the other one finish; then apply the plan again",
        )
    if refusal.operation == "destination":
        return RefusedError(f"broker {entry.destination} is not registered", "plan again")
    if isinstance(refusal.error, NodeExistsError):
        return RefusedError(f"step {entry.order} has a journal entry already", "apply the plan again to resume")
    return RefusedError(f"bundle {entry.bundle} was changed by another hand", "plan again")
