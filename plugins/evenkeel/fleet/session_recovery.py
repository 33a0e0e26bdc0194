"""What a simulated broker does after ZooKeeper expired its session, by PIP-57 and the broker's policy.

    local store          policy shutdown    the process stops
                         policy reconnect   it opens a new session in a few attempts, then the load manager finds out
                                            which bundles are still its own; without a session, the process stops
    configuration store  either policy      it opens a new session in a few attempts and drops what it had cached; it
                                            has no ephemeral nodes there; without a session, the process stops

With a new session, a modular broker checks the ownership node of every bundle in its cache (`Reowning`):

    no node                                   create it: owned again, topics preloaded
    node of this session                      kept
    node of an older session of this broker   wait until ZooKeeper deletes it, then check again
    node that names another broker            unload the bundle

The session that owns a node decides whose it is, never the name in it.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import WatchedEvent

from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.load_manager import LoadManager
from evenkeel.model.errors import EvenkeelError, InputError

STOP_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.05

_log = logging.getLogger(__name__)


class SessionRecovery:
    """Replaces lost sessions; for each broker, one at a time."""

    def __init__(
        self,
        manager: Callable[[], LoadManager],
        clock: Callable[[], float],
        new_session_delay_s: float,
        on_shut_down: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._new_session_delay_s = new_session_delay_s
        self._on_shut_down = on_shut_down
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._one_at_a_time: dict[str, threading.Lock] = {}
        self._threads: list[threading.Thread] = []

    def stop(self) -> None:
        """Stop replacing sessions."""
        self._stopping.set()
        with self._lock:
            threads = list(self._threads)
        deadline_s = time.monotonic() + STOP_TIMEOUT_S
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def on_lost(self, broker: SimulatedBroker) -> None:
        """Handle the loss of the local store's session. Called on the session's thread, which must not block."""
        self._begin(self._recover, broker)

    def on_configuration_lost(self, broker: SimulatedBroker) -> None:
        """Handle the loss of the configuration store's session. Called on the session's thread."""
        self._begin(self._recover_configuration, broker)

    def _begin(self, recover: Callable[[SimulatedBroker], None], broker: SimulatedBroker) -> None:
        # In a thread of its own: waiting for ZooKeeper must not block the fleet's few workers.
        process = broker.started_s

        def run() -> None:
            with self.lock_for(broker.id):
                if broker.is_running and broker.started_s == process and not self._stopping.is_set():
                    try:
                        recover(broker)
                    except Exception:
                        _log.exception("%s could not replace its session", broker.id)

        thread = threading.Thread(target=run, name=f"new-session-{broker.id}", daemon=True)
        with self._lock:
            self._threads = [*(other for other in self._threads if other.is_alive()), thread]
        thread.start()

    def lock_for(self, broker_id: str) -> threading.Lock:
        """Return the lock to hold while opening a session for a broker."""
        with self._lock:
            return self._one_at_a_time.setdefault(broker_id, threading.Lock())

    def _recover(self, broker: SimulatedBroker) -> None:
        if broker.local.is_open:
            # An earlier call has already replaced this session.
            return
        if not broker.can_reconnect:
            self._shut_down(broker, "it lost its session")
            return
        losses, manager = broker.local.losses, self._manager()
        manager.on_session_lost(broker)
        self._wait_before_new_session(broker)
        try:
            broker.take_new_session(self._clock())
            manager.on_new_session(broker)
        except (EvenkeelError, KazooException, KazooTimeoutError) as error:
            # If the new session was lost as well, the next call handles it. A broker killed meanwhile needs nothing.
            if broker.is_running and broker.local.losses == losses and not self._stopping.is_set():
                self._shut_down(broker, f"it could not open a new session ({error or type(error).__name__})")

    def _wait_before_new_session(self, broker: SimulatedBroker) -> None:
        deadline_s = time.monotonic() + self._new_session_delay_s
        while broker.is_running and (left_s := deadline_s - time.monotonic()) > 0:
            if self._stopping.wait(min(left_s, POLL_INTERVAL_S)):
                return

    def _recover_configuration(self, broker: SimulatedBroker) -> None:
        try:
            broker.take_new_configuration_session()
        except EvenkeelError as error:
            if broker.is_running and not self._stopping.is_set():
                self._shut_down(broker, f"it could not open a new session with the configuration store ({error})")

    def _shut_down(self, broker: SimulatedBroker, why: str) -> None:
        _log.warning("%s is shutting down: %s", broker.id, why)
        broker.stop()
        self._manager().on_broker_lost(broker.id)
        self._on_shut_down()


@dataclass(slots=True)
class ReowningOutcome:
    """What happened to a broker's bundles after a new session."""

    session_id: int
    kept: list[str] = field(default_factory=list)
    owned_again: list[str] = field(default_factory=list)
    """Their topics were preloaded."""
    unloaded: list[str] = field(default_factory=list)
    """Another broker has taken them."""


@dataclass(frozen=True, slots=True)
class OwnershipNodes:
    """How a broker reads and writes ownership nodes."""

    broker_id: str
    document: bytes
    path: Callable[[str], str]
    owner_named_in: Callable[[bytes, str], str]


class Reowning:
    """Checks all bundles in one broker's cache with one new session, side by side."""

    def __init__(self, client: KazooClient, session_id: int, nodes: OwnershipNodes, call_timeout_s: float) -> None:
        self._client = client
        self._nodes = nodes
        self._call_timeout_s = call_timeout_s
        self._changed = threading.Event()
        self.outcome = ReowningOutcome(session_id)

    def run(self, bundles: Sequence[str], deadline_s: float) -> ReowningOutcome:
        """Decide about every bundle; one whose old node outlives the deadline belongs to another broker: unload it."""
        undecided = list(bundles)
        while undecided:
            self._changed.clear()
            undecided = self._check(undecided)
            left_s = deadline_s - time.monotonic()
            if undecided and left_s <= 0:
                _log.warning("%d nodes of an older session still exist after the deadline", len(undecided))
                self.outcome.unloaded += undecided
                break
            if undecided:
                self._changed.wait(left_s)
        return self.outcome

    def _check(self, bundles: Sequence[str]) -> list[str]:
        """Decide what can be decided now; returns the bundles whose old node still exists."""
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
        """Create the nodes; returns the bundles that another broker claimed first, to be checked again."""
        made = [
            (b, self._client.create_async(self._nodes.path(b), self._nodes.document, ephemeral=True, makepath=True))
            for b in bundles
        ]
        contested = []
        for bundle, result in made:
            try:
                result.get(timeout=self._call_timeout_s)
            except NodeExistsError:
                contested.append(bundle)
                self._changed.set()
            else:
                self.outcome.owned_again.append(bundle)
        return contested

    def _names_this_broker(self, data: bytes, bundle: str) -> bool:
        try:
            return self._nodes.owner_named_in(data, self._nodes.path(bundle)) == self._nodes.broker_id
        except InputError as error:
            _log.warning("%s", error)
            return False

    def _on_event(self, _event: WatchedEvent) -> None:
        self._changed.set()
