"""Transfers on modular clusters, where only the owner's node tells who owns a bundle.

Clients look a bundle up about 100 ms after they were cut off, and the leader then chooses an owner for a bundle that
has none. Evenkeel has to be first, or the leader has to know the destination:

- A bundle with few topics is unloaded within a few milliseconds. Then a lookup makes the destination take it: one call.
- A bundle with many topics is closed topic by topic, and the first clients are back before the last is closed. Its
  unload names the destination, which the leader notes and gives to the next lookup. A note that no lookup has used
  would misdirect the bundle when Pulsar unloads it later (before 4.0.10 and 4.2.1 any bundle of that range, past its
  isolation policy), so Evenkeel's own lookups go by the leader too, and few topics get no note.

A lookup's answer proves nothing: right after an unload brokers may still name the old owner from their caches, while
the destination is about to own the bundle. Unloading again at that moment would take the bundle from its destination,
and cut off clients that are in the middle of connecting; some clients never come back from that.

    unload ──▶ look up, read the node ──▶ owned by the destination: done
                    ▲        └──▶ owned by another broker: wait until clients have settled, then unload again
                    └── no owner yet, or still the old node
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from evenkeel.adapters.brokers.admin_api import PulsarAdmin, name_topic_inside
from evenkeel.adapters.machine import monotonic_s
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import RefusedError

MOST_UNLOADS = 3
# Seen on real brokers: 6 topics are closed in 17 ms on a busy machine.
MOST_TOPICS_WITHOUT_NOTE = 20
# The destination's cache may be out of date for a moment; it is asked often until it is up to date.
FIRST_LOOKUP_PAUSE_S = 0.02
LONGEST_LOOKUP_PAUSE_S = 0.25
LOOKUP_PAUSE_GROWTH = 1.3
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OwnerNode:
    """A node under /namespace: who owns the bundle, and which change created the node."""

    owner: str
    created_zxid: int


OwnerReader = Callable[[str], OwnerNode | None]


class ModularTransfer:
    """Hands bundles over, and counts how often each had to be unloaded."""

    def __init__(
        self,
        admin: PulsarAdmin,
        read_owner: OwnerReader,
        unload_again_after_s: float,
        may_go_on: Callable[[], None] = lambda: None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._admin = admin
        self._read_owner = read_owner
        self._settling_s = unload_again_after_s
        self._may_go_on = may_go_on
        self._sleep = sleep

    def enforce_destination(self, bundle: str, destination: str, topics: int, deadline_s: float) -> None:
        """Look up a bundle so that its destination gets it, if nobody owns it."""
        if _needs_note(topics):
            self._admin.enforce_destination(bundle, destination, deadline_s)
        else:
            self._admin.take(bundle, destination, deadline_s)

    def transfer(
        self, bundle: str, owner: str, destination: str, topics: int, deadline_s: float, on_unload: Callable[[], None]
    ) -> None:
        """Unload a bundle and look it up at its destination until a broker owns it; `on_unload` counts the unloads.

        Only a first call that certainly changed nothing is refused. Whatever else happens, the owner's node, read
        later, tells how the step has ended.
        """
        # A range too narrow to be looked up must not be unloaded.
        name_topic_inside(BundleName.parse(bundle))
        old = self._read_owner(bundle)
        for count in range(1, MOST_UNLOADS + 1):
            try:
                if _needs_note(topics):
                    self._admin.transfer(bundle, owner, destination, deadline_s)
                else:
                    self._admin.unload(bundle, owner, deadline_s)
            except RefusedError as refusal:
                if count == 1:
                    raise
                log.warning("%s", refusal)
                return
            on_unload()
            found = self._await_owner(bundle, destination, topics, old, deadline_s)
            if found is None or found.owner == destination or count == MOST_UNLOADS:
                return
            log.warning("%s should go to %s, but %s owns it now", bundle, destination, found.owner)
            found = self._await_settled_clients(bundle, found, deadline_s)
            if found is None or found.owner == destination:
                return
            self._may_go_on()
            old, owner = found, found.owner

    def _await_owner(
        self, bundle: str, destination: str, topics: int, old: OwnerNode | None, deadline_s: float
    ) -> OwnerNode | None:
        """Wait for a node that is not the old one; None if there is none in time."""
        until_s = min(deadline_s, monotonic_s() + self._settling_s)
        pause_s = FIRST_LOOKUP_PAUSE_S
        while True:
            self.enforce_destination(bundle, destination, topics, deadline_s)
            found = self._read_owner(bundle)
            if found is not None and found != old:
                return found
            if monotonic_s() >= until_s:
                return None
            self._sleep(pause_s)
            pause_s = min(pause_s * LOOKUP_PAUSE_GROWTH, LONGEST_LOOKUP_PAUSE_S)

    def _await_settled_clients(self, bundle: str, found: OwnerNode, deadline_s: float) -> OwnerNode | None:
        """Wait until one broker has owned a bundle for long enough; None if there is no time to unload it again."""
        since_s = monotonic_s()
        while monotonic_s() - since_s < self._settling_s:
            if deadline_s - monotonic_s() < self._settling_s:
                return None
            self._sleep(LONGEST_LOOKUP_PAUSE_S)
            now = self._read_owner(bundle)
            if now is None:
                return None
            if now != found:
                found, since_s = now, monotonic_s()
        return found


def _needs_note(topics: int) -> bool:
    """Whether clients may be back before the owner has closed all topics."""
    return topics > MOST_TOPICS_WITHOUT_NOTE
