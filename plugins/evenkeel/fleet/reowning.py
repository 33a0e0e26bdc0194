"""PIP-57: what a broker does about the bundles in its cache when a new session has taken the place of a lost one.

    node exists?
    ├─ no ─────────────────────────────▶ create it ──▶ owned again: preload its topics
    ├─ yes, this session's ────────────▶ kept
    ├─ yes, names this broker, another ▶ ZooKeeper has not deleted it yet: wait for the deletion, then look again
    │  session's
    └─ yes, names another broker ──────▶ taken: unload the bundle

A node is never taken for one's own by the name in it: the session that owns it decides.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import WatchedEvent

from evenkeel.model.errors import InputError

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Reownership:
    """What became of a broker's bundles after a new session."""

    session_id: int
    kept: list[str] = field(default_factory=list)
    owned_again: list[str] = field(default_factory=list)
    """Their topics were preloaded."""
    unloaded: list[str] = field(default_factory=list)
    """Another broker had taken them meanwhile."""


@dataclass(frozen=True, slots=True)
class OwnershipNodes:
    """How a broker's ownership nodes are written and read."""

    broker_id: str
    document: bytes
    path: Callable[[str], str]
    owner_named_in: Callable[[bytes, str], str]


class Reowning:
    """One broker's way through its cache with one session; bundles are looked at together, not one after another."""

    def __init__(self, client: KazooClient, session_id: int, nodes: OwnershipNodes, call_timeout_s: float) -> None:
        self._client = client
        self._nodes = nodes
        self._call_timeout_s = call_timeout_s
        self._changed = threading.Event()
        self.outcome = Reownership(session_id)

    def run(self, bundles: Sequence[str], deadline_s: float) -> Reownership:
        """Settle every bundle; one whose old node outlives the deadline belongs to somebody else, and is unloaded."""
        undecided = list(bundles)
        while undecided:
            self._changed.clear()
            undecided = self._look_at(undecided)
            left_s = deadline_s - time.monotonic()
            if undecided and left_s <= 0:
                _log.warning("%d nodes of an older session did not go away", len(undecided))
                self.outcome.unloaded += undecided
                break
            if undecided:
                self._changed.wait(left_s)
        return self.outcome

    def _look_at(self, bundles: Sequence[str]) -> list[str]:
        """Decide what can be decided now; returns the bundles whose old node has yet to go."""
        asked = [(b, self._client.get_async(self._nodes.path(b), watch=self._on_event)) for b in bundles]
        waiting, absent = [], []
        for bundle, result in asked:
            try:
                data, stat = result.get(timeout=self._call_timeout_s)
            except NoNodeError:
                absent.append(bundle)
                continue
            if stat.ephemeralOwner == self.outcome.session_id:
                self.outcome.kept.append(bundle)
            elif self._names_this_broker(data, bundle):
                waiting.append(bundle)
            else:
                self.outcome.unloaded.append(bundle)
        return waiting + self._own(absent)

    def _own(self, bundles: Sequence[str]) -> list[str]:
        """Create the nodes; returns the bundles that somebody else was faster with, to be looked at again."""
        made = [
            (b, self._client.create_async(self._nodes.path(b), self._nodes.document, ephemeral=True, makepath=True))
            for b in bundles
        ]
        overtaken = []
        for bundle, result in made:
            try:
                result.get(timeout=self._call_timeout_s)
            except NodeExistsError:
                overtaken.append(bundle)
                self._changed.set()
            else:
                self.outcome.owned_again.append(bundle)
        return overtaken

    def _names_this_broker(self, data: bytes, bundle: str) -> bool:
        try:
            return self._nodes.owner_named_in(data, self._nodes.path(bundle)) == self._nodes.broker_id
        except InputError as error:
            _log.warning("%s", error)
            return False

    def _on_event(self, _event: WatchedEvent) -> None:
        self._changed.set()
