"""Sessions that end under a run: ended from outside while steps are under way, as ZooKeeper does in the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.cluster_view import ZooKeeperClusterView
from evenkeel.adapters.runs import RunStore
from evenkeel.model.run import RunRecord
from evenkeel.model.run_events import Decision
from support.scenes import Scene


def expire(view: ZooKeeperClusterView) -> None:
    """End a session from outside: close it by its id and password."""
    session = view._session
    double = KazooClient(session._hosts, client_id=session._client.client_id)
    double.start(timeout=10.0)
    double.stop()
    double.close()


def meddle(monkeypatch: pytest.MonkeyPatch, times: int, deed: Callable[[ZooKeeperClusterView], None]) -> list[int]:
    """Do something to the writer's session while steps are under way, so many times."""
    done: list[int] = []
    waits = ZooKeeperClusterView.next_changes

    def wait_and_meddle(view: ZooKeeperClusterView, timeout_s: float) -> frozenset[str]:
        if len(done) < times:
            done.append(len(done))
            deed(view)
        return waits(view, timeout_s)

    monkeypatch.setattr(ZooKeeperClusterView, "next_changes", wait_and_meddle)
    return done


def decisions_of(scene: Scene, run: RunRecord) -> list[Decision]:
    return [event.decision for event in RunStore(scene.lake).read_events(run.run_id)]


def warnings_of(scene: Scene, run: RunRecord) -> list[str]:
    return [e.detail for e in RunStore(scene.lake).read_events(run.run_id) if e.decision is Decision.WARNED]
