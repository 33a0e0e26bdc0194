"""Who may write, decided by ZooKeeper: the nodes `fence`, `writer`, `holder-…` and `stop` under /evenkeel/<cluster>.

The fence's *version* is the epoch. Taking the fence raises it; every later transaction checks it, so a writer that was
overtaken can read but never write. The ephemeral node `writer` ties an epoch to a live session: each transaction checks
it too, so a session that ZooKeeper has given up cannot write even if its client lives on.

A check cannot tell a node from one that was deleted and made again: where somebody removes /evenkeel, epochs start at
one again and an overtaken writer's epoch may come back. Its `holder-…` node does not: it is named after a token that is
drawn anew for each acquisition.

`require_rights` asks beforehand whether ZooKeeper's ACLs would let this user write.
"""

from __future__ import annotations

import getpass
import json
import logging
import os
import socket
import time
import uuid
from collections.abc import Sequence

from kazoo.exceptions import NoAuthError

from evenkeel.adapters.fencing.cluster_clock import ClusterClock, Moment
from evenkeel.adapters.fencing.live_writer import LiveWriter
from evenkeel.adapters.machine import SystemClock, monotonic_s
from evenkeel.adapters.zookeeper.nodes import (
    Operation,
    TransactionRefusedError,
    check,
    create,
    delete,
    forbidden,
    set_data,
)
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.directives import Directive
from evenkeel.model.errors import EvenkeelError, FencedOutError, RefusedError, RunStoppedError, UnconfirmedError
from evenkeel.model.settings import Settings
from evenkeel.ports import Clock

POLL_S = 0.2
MOST_ATTEMPTS = 3
DEAD_WRITER_SESSIONS = 2
"""How many session time-outs a dead writer's node may stay: ZooKeeper expires sessions at its next tick, and a tick may
be as long as the shortest session; the time also restarts with a new leader of the ensemble."""
# A request may have a megabyte, and a record has a few hundred bytes.
NODES_A_TRANSACTION = 500
NO_NODE_IS_EVER_AT = 2**31 - 1
REVOKED = b"the plan of this epoch was revoked: "
"""How the fence's data begins once `evenkeel revoke` has raised it; no holder's token begins like that."""
log = logging.getLogger(__name__)


class Fence:
    """The right to write, held by at most one session."""

    def __init__(
        self, session: ZooKeeperSession, paths: EvenkeelPaths, settings: Settings, clock: Clock | None = None
    ) -> None:
        self._session = session
        self._paths = paths
        self._settings = settings
        self._epoch: int | None = None
        self._token = ""
        self.clock = ClusterClock(clock or SystemClock(), settings.clock_offset_limit_s)
        self.holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex}"

    def acquire(self, plan_id: str) -> int:
        """Raise the epoch in one transaction with the proof that this session lives; refuse beside another writer."""
        self._session.ensure_path(self._paths.fence)
        self._wait_for_other_writer()
        before = self.clock.read()
        self._epoch = self._take(plan_id)
        self._require_good_clock(before)
        log.info("took the fence at epoch %d", self._epoch)
        return self._epoch

    def proofs(self) -> list[Operation]:
        """The checks that every transaction of this writer starts with."""
        if self._epoch is None:
            raise FencedOutError("this writer does not hold the fence", "acquire it first")
        return [
            check("fence", self._paths.fence, self._epoch),
            check("writer", self._paths.writer),
            check("holder", self._own_node),
        ]

    def require_held(self) -> None:
        """Raise unless this writer still holds the fence; another may take it the moment after."""
        paths = [self._paths.fence, self._paths.writer, self._own_node]
        fence, writer, holder = self._session.get_latest(paths)
        is_at_epoch = fence is not None and fence.version == self._epoch
        is_alive = writer is not None and writer.ephemeral_owner == self._session.session_id
        if not (is_at_epoch and is_alive and holder is not None):
            raise self._fenced_out("fence: read again")

    def measure_clock(self, before: Moment, path: str) -> None:
        """Compare the clocks by a node that this writer has written since `before`; stop the run if one is off."""
        stat = self._session.stat(path)
        if stat is not None:
            self.clock.measure(before, int(stat.mtime))

    def explain(self, refusal: TransactionRefusedError) -> EvenkeelError | None:
        """Why ZooKeeper refused a transaction, if that concerns the whole run; None if it concerns one step."""
        if isinstance(refusal.error, NoAuthError):
            return forbidden(refusal.path)
        return self._fenced_out(str(refusal)) if refusal.operation in ("fence", "writer", "holder") else None

    def _fenced_out(self, evidence: str) -> FencedOutError:
        stop, fence = self._session.get_latest([self._paths.stop, self._paths.fence])
        if stop is not None:
            directive = Directive.decode(stop.data)
            return FencedOutError(
                f"stopped by {directive.who}: {directive.reason or 'no reason was given'}",
                "once the reason is resolved, run `evenkeel resume`, then apply the plan again to go on",
            )
        if fence is not None and fence.data.startswith(REVOKED):
            why = fence.data.removeprefix(REVOKED).decode(errors="replace")
            return FencedOutError(f"the plan was {why}", "take a new snapshot and plan again")
        return FencedOutError(
            f"another writer has taken over, or this writer's session expired ({evidence})",
            "let the other writer finish, then apply the plan again",
        )

    def release(self) -> None:
        """Let the next writer start at once; the epoch is spent."""
        if self._epoch is None:
            return
        proof, self._epoch = check("fence", self._paths.fence, self._epoch), None
        try:
            # Checked, so that a late release never removes the node of the writer that came after.
            self._session.commit([proof, delete("holder", self._own_node), delete("writer", self._paths.writer)])
        except (EvenkeelError, TransactionRefusedError) as error:
            # The node is ephemeral: where it cannot be removed now, it goes with the session.
            log.warning("this writer no longer held the fence, or ZooKeeper did not answer: %s", error)
            self._remove_own_nodes()

    @property
    def _own_node(self) -> str:
        """The node that stands for this acquisition of the fence, and for no other."""
        return self._paths.holder(self._token)

    def _remove_own_nodes(self) -> None:
        """Remove what this very session created; while `writer` exists, nobody else can create it."""
        try:
            nodes = self._session.get_latest([self._own_node, self._paths.writer])
            own = [n for n in nodes if n is not None and n.ephemeral_owner == self._session.session_id]
            if own:
                self._session.commit([delete("own", node.path) for node in own])
        except (EvenkeelError, TransactionRefusedError) as error:
            log.warning("the node %s stays until its session ends: %s", self._paths.writer, error)

    def _take(self, plan_id: str) -> int:
        self._token = uuid.uuid4().hex
        for _ in range(MOST_ATTEMPTS):
            (fence,) = self._session.get_latest([self._paths.fence])
            if fence is None:
                raise RefusedError(f"{self._paths.fence} was removed just now", "try again later")
            epoch = fence.version + 1
            fields = {"holder": self.holder, "user": _user(), "plan_id": plan_id, "epoch": epoch}
            holder = json.dumps(fields)
            try:
                self._session.commit(
                    [
                        set_data("fence", self._paths.fence, self.holder.encode(), fence.version),
                        create("writer", self._paths.writer, holder.encode(), ephemeral=True),
                        create("holder", self._own_node, b"", ephemeral=True),
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
        raise RunStoppedError(
            "ZooKeeper did not confirm who holds the fence", "check that ZooKeeper is healthy, then try again"
        )

    def _has_taken(self, epoch: int) -> bool:
        """Whether an unconfirmed transaction took the fence after all: it then carries this writer's token."""
        self._session.await_connection()
        fence, writer = self._session.get_latest([self._paths.fence, self._paths.writer])
        is_ours = fence is not None and fence.data == self.holder.encode() and fence.version == epoch
        # A node left by an older session does not prove that this one lives.
        return is_ours and writer is not None and writer.ephemeral_owner == self._session.session_id

    def _wait_for_other_writer(self) -> None:
        """A writer that died leaves its node behind for a while; one whose node outlives that is alive."""
        deadline_s = monotonic_s() + DEAD_WRITER_SESSIONS * self._settings.session_timeout_s
        while True:
            (node,) = self._session.get([self._paths.writer])
            if node is None:
                return
            if monotonic_s() > deadline_s:
                raise RefusedError(
                    f"another writer is at work: {LiveWriter.decode(node)}",
                    "wait until it has finished, or stop it",
                )
            time.sleep(POLL_S)

    def _require_good_clock(self, before: Moment) -> None:
        """Compare the clocks by the node `writer`; a machine whose clock is off is refused before it writes a step."""
        (node,) = self._session.get([self._paths.writer])
        if node is None or node.ephemeral_owner != self._session.session_id:
            raise FencedOutError("this writer's session has expired", "run the same command again")
        try:
            self.clock.measure(before, node.ctime_ms)
        except RunStoppedError as error:
            self.release()
            raise RefusedError(error.cause, error.remedy) from error


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        # A container's user may have no name.
        return str(os.getuid())


def require_rights(session: ZooKeeperSession, paths: Sequence[str]) -> None:
    """Refuse unless this user may write those of the nodes that exist; writes nothing.

    A transaction whose last operation cannot succeed is always refused as a whole, but ZooKeeper checks the permissions
    of every earlier operation first: what it complains about tells whether the others would have been allowed.
    """
    for begin in range(0, len(paths), NODES_A_TRANSACTION):
        _rehearse(session, paths[begin : begin + NODES_A_TRANSACTION])


def _rehearse(session: ZooKeeperSession, paths: Sequence[str]) -> None:
    unconfirmed = 0
    while paths:
        nodes = [node for node in session.get(paths) if node is not None]
        # Each node would get the very bytes that it has.
        writes = [set_data("write", node.path, node.data, node.version) for node in nodes]
        try:
            session.commit([*writes, check("never", paths[0], NO_NODE_IS_EVER_AT)])
        except UnconfirmedError:
            # Nothing was written either way, so it may be sent again.
            unconfirmed += 1
            if unconfirmed == MOST_ATTEMPTS:
                raise
            session.await_connection()
        except TransactionRefusedError as refusal:
            if isinstance(refusal.error, NoAuthError):
                raise forbidden(refusal.path) from refusal
            if refusal.operation == "never":
                return
            # Changed or removed since it was read: its permissions were checked first, and were in order.
            paths = [path for path in paths if path != refusal.path]
