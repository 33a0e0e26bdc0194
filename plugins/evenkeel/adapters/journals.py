"""What writers left under /evenkeel/<cluster>: who is at work, where each plan stands, and its journal; read only."""

from __future__ import annotations

from dataclasses import dataclass

from evenkeel.adapters.zookeeper import ZooKeeperSession
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import MALFORMED, parse_json, require_types
from evenkeel.model.run import JournalEntry, PlanStanding


@dataclass(frozen=True, slots=True)
class Writer:
    """The writer that is at work now."""

    holder: str
    plan_id: str
    epoch: int


class Journals:
    """The plans of one cluster that were ever begun and are still remembered."""

    def __init__(self, session: ZooKeeperSession, connection: ClusterConnection) -> None:
        self._session = session
        self._home = connection.home

    def plan_ids(self) -> list[str]:
        return self._session.children(f"{self._home}/plans")

    def standing(self, plan_id: str) -> PlanStanding | None:
        """Where a plan stands; None where its node says nothing yet."""
        path = f"{self._home}/plans/{plan_id}"
        (node,) = self._session.read([path])
        return None if node is None or not node.data else PlanStanding.decode(node.data, path)

    def entries(self, plan_id: str) -> list[JournalEntry]:
        """A plan's journal in the order of its steps; empty where nothing was begun."""
        base = f"{self._home}/plans/{plan_id}/steps"
        paths = [f"{base}/{name}" for name in self._session.children(base)]
        nodes = self._session.read(paths)
        found = [JournalEntry.decode(n.data, p) for p, n in zip(paths, nodes, strict=True) if n is not None]
        return sorted(found, key=lambda entry: entry.order)

    def writer(self) -> Writer | None:
        """Who writes now, if anybody does."""
        path = f"{self._home}/writer"
        (node,) = self._session.read([path])
        if node is None:
            return None
        try:
            fields = parse_json(node.data)
            require_types(Writer, fields)
            return Writer(fields["holder"], fields["plan_id"], fields["epoch"])
        except MALFORMED as error:
            raise InputError(
                f"{path} is not of a writer of this version ({error!r})", "wait until it is gone"
            ) from error
