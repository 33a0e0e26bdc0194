"""After ZooKeeper was away: nothing is applied until it has been back for a while and all brokers are there again."""

from __future__ import annotations

from collections.abc import Callable, Collection

from evenkeel.model.errors import RunStoppedError
from evenkeel.model.settings import Settings
from evenkeel.ports import Clock, ClusterView, GuardedWriter

POLL_S = 0.25


def find_missing(brokers: Collection[str], view: ClusterView) -> list[str]:
    """Brokers that the plan counts on and that are not registered now."""
    return sorted(set(brokers) - set(view.incarnations(brokers)))


def wait_until_calm(
    brokers: Collection[str],
    view: ClusterView,
    writer: GuardedWriter,
    clock: Clock,
    settings: Settings,
    require_going_on: Callable[[], None],
) -> float:
    """Wait in safe mode and answer for how long; brokers that stay away until the deadline stop the run."""
    began_s = clock.monotonic_s()
    while True:
        require_going_on()
        writer.await_connection()
        missing = find_missing(brokers, view)
        waited_s = clock.monotonic_s() - began_s
        if not missing and writer.connected_for_s() >= settings.safe_mode_wait_s:
            return waited_s
        if waited_s > settings.safe_mode_deadline_s:
            what = f"broker {missing[0]} has not registered again" if missing else "ZooKeeper has not been calm"
            raise RunStoppedError(
                f"{what} within {settings.safe_mode_deadline_s:.0f} s",
                "bring it back and apply the plan again to go on, or take a new snapshot and plan anew",
            )
        clock.sleep(POLL_S)
