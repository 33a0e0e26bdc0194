"""What operators order beside any run: the kill switch, and the marks on brokers that are to be emptied.

Pulling the kill switch raises the fence in the same transaction. A writer between two looks at `stop` is thereby fenced
out: its next transaction is refused, and it then finds the node and says who pulled the switch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kazoo.exceptions import BadVersionError, NodeExistsError, NoNodeError

from evenkeel.adapters.fencing.live_writer import LiveWriter
from evenkeel.adapters.zookeeper.nodes import Operation, TransactionRefusedError, ZNode, check, create, delete, set_data
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.directives import Directive
from evenkeel.model.errors import RefusedError, UnconfirmedError
from evenkeel.model.names import require_broker_id

MOST_ATTEMPTS = 5
_GRANT = "grant this user write permission below Evenkeel's root, then try again"


@dataclass(frozen=True, slots=True)
class PulledSwitch:
    """A kill switch after it was pulled: by which directive, who was writing, and how the fence was raised.

    `is_new` is false where writing was stopped already. The fence is then raised again only if a writer got past it.
    """

    directive: Directive
    is_new: bool
    writer: LiveWriter | None
    fence_before: int
    fence_after: int


class KillSwitch:
    """The node `stop`: while it exists, nothing is written to the cluster."""

    def __init__(self, session: ZooKeeperSession, connection: ClusterConnection) -> None:
        self._session = session
        self._paths = EvenkeelPaths(connection.home)

    def read(self) -> Directive | None:
        """The directive that stops all writing now, if there is one."""
        (node,) = self._session.get([self._paths.stop])
        return None if node is None else Directive.decode(node.data)

    def pull(self, directive: Directive) -> PulledSwitch:
        """Stop all writing; where it is stopped already, the directive in force stands.

        The fence is raised at the version that was read together with the writer, so no other writer can have taken it
        in between: the one that is returned is the one that is shut out.
        """
        before: int | None = None
        for _ in range(MOST_ATTEMPTS):
            self._session.ensure_path(self._paths.fence)
            paths = [self._paths.fence, self._paths.stop, self._paths.writer]
            fence, stop, writer = self._session.get_latest(paths)
            if fence is None:
                continue
            before = fence.version if before is None else before
            live = None if writer is None else LiveWriter.decode(writer)
            in_force = directive if stop is None else Directive.decode(stop.data)
            if stop is not None and _is_shut_out(live, fence, stop):
                return PulledSwitch(in_force, in_force == directive, live, before, fence.version)
            try:
                self._session.commit(self._stop_operations(directive, fence.version, has_to_create=stop is None))
                return PulledSwitch(in_force, stop is None, live, fence.version, fence.version + 1)
            except UnconfirmedError:
                # What is read next tells whether it happened.
                self._session.await_connection()
            except TransactionRefusedError as refusal:
                if not isinstance(refusal.error, NodeExistsError | BadVersionError | NoNodeError):
                    raise _cannot_write(refusal) from refusal
        raise RefusedError(
            f"the kill switch {self._paths.stop} was not pulled: others keep changing the same nodes, or ZooKeeper "
            "does not confirm",
            "run the same command again at once",
        )

    def _stop_operations(self, directive: Directive, fence: int, has_to_create: bool) -> list[Operation]:
        raised = set_data("fence", self._paths.fence, f"stopped by {directive}".encode(), fence)
        return [create("stop", self._paths.stop, directive.encode()), raised] if has_to_create else [raised]

    def release(self) -> Directive | None:
        """Let writers go on; returns the directive that was in force, None where none was."""
        in_force = self.read()
        if in_force is None:
            return None
        try:
            self._session.commit([delete("stop", self._paths.stop)])
        except TransactionRefusedError as refusal:
            if not isinstance(refusal.error, NoNodeError):
                raise _cannot_write(refusal) from refusal
        return in_force


class Draining:
    """The nodes under `draining`; a marked broker counts as Stopping: it is emptied, and receives nothing."""

    def __init__(self, session: ZooKeeperSession, connection: ClusterConnection) -> None:
        self._session = session
        self._paths = EvenkeelPaths(connection.home)
        self._pulsar = PulsarPaths.of(connection)

    def marked(self) -> dict[str, Directive]:
        """The brokers that are marked now, and who marked them."""
        names = self._session.child_names(self._paths.draining)
        nodes = self._session.get([self._paths.draining_broker(name) for name in names])
        return {name: Directive.decode(node.data) for name, node in zip(names, nodes, strict=True) if node is not None}

    def mark(self, brokers: Sequence[str], directive: Directive) -> None:
        """Mark brokers, all or none; one that is marked already keeps its mark, one that is not registered is refused.

        The registration is checked in the same transaction, so that a mistyped name leaves no mark behind.
        """
        for broker in brokers:
            require_broker_id(broker)
        marked = self.marked()
        self._session.ensure_path(self._paths.draining)
        operations = []
        for broker in brokers:
            operations.append(check(broker, self._pulsar.broker(broker)))
            if broker not in marked:
                operations.append(create("mark", self._paths.draining_broker(broker), directive.encode()))
        try:
            self._session.commit(operations)
        except TransactionRefusedError as refusal:
            raise _explain_mark(refusal) from refusal

    def unmark(self, brokers: Sequence[str]) -> list[str]:
        """Remove marks; returns the brokers that had one."""
        marked = [broker for broker in brokers if broker in self.marked()]
        if marked:
            try:
                self._session.commit([delete("mark", self._paths.draining_broker(broker)) for broker in marked])
            except TransactionRefusedError as refusal:
                raise _explain_mark(refusal) from refusal
        return marked


def _is_shut_out(writer: LiveWriter | None, fence: ZNode, stop: ZNode) -> bool:
    """Whether nobody can begin a step: a writer that came after the stop may only tear down."""
    if writer is None or writer.czxid > stop.czxid:
        return True
    return writer.epoch is not None and writer.epoch < fence.version


def _cannot_write(refusal: TransactionRefusedError) -> RefusedError:
    return RefusedError(f"ZooKeeper refused to write the kill switch ({refusal})", _GRANT)


def _explain_mark(refusal: TransactionRefusedError) -> RefusedError:
    if isinstance(refusal.error, NoNodeError) and refusal.operation != "mark":
        return RefusedError(
            f"broker {refusal.operation} is not registered", "give the broker's id as Pulsar lists it, host:port"
        )
    if isinstance(refusal.error, NodeExistsError | NoNodeError):
        return RefusedError("somebody else changed the marks at the same moment", "run the same command again")
    return RefusedError(f"ZooKeeper refused to write the mark ({refusal})", _GRANT)
