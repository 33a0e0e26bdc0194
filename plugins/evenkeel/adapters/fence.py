"""Who may write, decided by ZooKeeper: the nodes `fence`, `writer` and `stop` under /evenkeel/<cluster>.

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

from kazoo.exceptions import NoAuthError

from evenkeel.adapters.zookeeper import (
    Operation,
    TransactionRefusedError,
    UnconfirmedError,
    ZooKeeperSession,
    check,
    create,
    delete,
    forbidden,
    set_data,
)
from evenkeel.model.errors import EvenkeelError, FencedOutError, RefusedError, RunStoppedError
from evenkeel.model.orders import Order
from evenkeel.model.settings import Settings

POLL_S = 0.2
MOST_ATTEMPTS = 3
DEAD_WRITER_SESSIONS = 2
"""How many session time-outs a dead writer's node may stay: ZooKeeper ends sessions at its next tick, and a tick may
be as long as the shortest session; the time also starts anew with a new leader of the ensemble."""
log = logging.getLogger(__name__)


class Fence:
    """The right to write, held by at most one session."""

    def __init__(self, session: ZooKeeperSession, home: str, settings: Settings) -> None:
        self._session = session
        self._fence = f"{home}/fence"
        self._writer = f"{home}/writer"
        self._stop = f"{home}/stop"
        self._settings = settings
        self._epoch: int | None = None
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"

    def acquire(self, plan_id: str) -> int:
        """Raise the epoch in one transaction with the proof that this session lives; refuse beside another writer."""
        self._session.ensure_path(self._fence)
        self._wait_for_other_writer()
        before_s = time.time()
        self._epoch = self._take(plan_id)
        self._require_good_clock(before_s)
        log.info("took the fence at epoch %d", self._epoch)
        return self._epoch

    def last_epoch(self) -> int | None:
        """The epoch of the writer before this one, or of this one once it holds the fence; None before the first."""
        stat = self._session.stat(self._fence)
        return None if stat is None else int(stat.version)

    def proofs(self) -> list[Operation]:
        """What every transaction of this writer begins with."""
        if self._epoch is None:
            raise FencedOutError("this writer does not hold the fence", "acquire it first")
        return [check("fence", self._fence, self._epoch), check("writer", self._writer)]

    def require_held(self) -> None:
        """Raise unless this writer still is the one that may write; it may be another's turn the moment after."""
        fence, writer = self._session.read_latest([self._fence, self._writer])
        is_at_epoch = fence is not None and fence.stat.version == self._epoch
        is_alive = writer is not None and writer.stat.ephemeralOwner == self._session.session_id
        if not (is_at_epoch and is_alive):
            raise self._fenced_out("fence: read again")

    def explain(self, refusal: TransactionRefusedError) -> EvenkeelError | None:
        """Say why ZooKeeper refused a transaction, where that is for the whole run and not for one step."""
        if isinstance(refusal.error, NoAuthError):
            return forbidden(refusal.path)
        return self._fenced_out(str(refusal)) if refusal.operation in ("fence", "writer") else None

    def _fenced_out(self, told_by: str) -> FencedOutError:
        (stop,) = self._session.read_latest([self._stop])
        if stop is not None:
            order = Order.decode(stop.data)
            return FencedOutError(
                f"stopped by {order.who}: {order.reason or 'no reason was given'}",
                "once it is clear why, run `evenkeel resume`, then apply the plan again to go on",
            )
        return FencedOutError(
            f"another writer has taken over, or this one's session expired ({told_by})",
            "let the other one finish; then apply the plan again",
        )

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
            log.warning("the fence was not this writer's any more, or nobody answered: %s", error)
            self._remove_own_node()

    def _remove_own_node(self) -> None:
        """Remove the node `writer` if it is this very session's; while it is there, it can be nobody else's."""
        try:
            (node,) = self._session.read_latest([self._writer])
            if node is not None and node.stat.ephemeralOwner == self._session.session_id:
                self._session.commit([delete("writer", self._writer)])
        except (EvenkeelError, TransactionRefusedError) as error:
            log.warning("the writer's node is left to the end of its session: %s", error)

    def _take(self, plan_id: str) -> int:
        for _ in range(MOST_ATTEMPTS):
            (fence,) = self._session.read_latest([self._fence])
            if fence is None:
                raise RefusedError(f"{self._fence} was removed at this moment", "try again later")
            epoch = int(fence.stat.version) + 1
            holder = json.dumps({"holder": self.holder, "plan_id": plan_id, "epoch": epoch})
            try:
                self._session.commit(
                    [
                        set_data("fence", self._fence, self.holder.encode(), fence.stat.version),
                        create("writer", self._writer, holder.encode(), ephemeral=True),
                    ]
                )
                return epoch
            except UnconfirmedError:
                if self._has_taken(epoch):
                    return epoch
            except TransactionRefusedError as refusal:
                if isinstance(refusal.error, NoAuthError):
                    raise forbidden(refusal.path) from refusal
                raise RefusedError("another writer took the fence at the same moment", "try again later") from refusal
        raise RunStoppedError("ZooKeeper did not confirm who holds the fence", "see that it is well, then try again")

    def _has_taken(self, epoch: int) -> bool:
        """Find out whether the fence was taken although nobody said so: it then bears this writer's token."""
        self._session.await_connection()
        fence, writer = self._session.read_latest([self._fence, self._writer])
        is_ours = fence is not None and fence.data == self.holder.encode() and fence.stat.version == epoch
        # A node that an older session left is nobody's proof that this one lives.
        return is_ours and writer is not None and writer.stat.ephemeralOwner == self._session.session_id

    def _wait_for_other_writer(self) -> None:
        """A writer that died leaves its node behind for a while; one whose node outlives that is alive."""
        deadline_s = time.monotonic() + DEAD_WRITER_SESSIONS * self._settings.session_timeout_s
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
        if node is None or node.stat.ephemeralOwner != self._session.session_id:
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
