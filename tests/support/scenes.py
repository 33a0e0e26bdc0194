"""A running fleet with a lake beside it, on which plans are applied, and ways to lose the writer's session."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.cluster.views import ZooKeeperClusterView
from evenkeel.adapters.fencing.native_balancer import SWITCHES
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.fleet.fleet import Fleet
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.plan import Step
from evenkeel.model.run import PlanStatus, RunRecord, RunState, StepResult
from evenkeel.model.run_events import Decision
from evenkeel.model.settings import Settings
from evenkeel.stages.snapshot import take_snapshot
from support.approvals import apply_plan
from support.plans import make_transfers, store_plan
from support.waiting import scaled

SETTINGS = Settings(
    session_timeout_s=scaled(4.0),
    step_deadline_s=scaled(10.0),
    verify_wait_s=scaled(5.0),
    safe_mode_wait_s=0.5,
    safe_mode_deadline_s=scaled(10.0),
    stop_wait_s=scaled(5.0),
)
SWITCHES_OF_FLEET = {"loadBalancerSheddingEnabled": "true"}
"""What a fleet has in Pulsar's dynamic configuration when it starts."""
PAUSED = dict.fromkeys(SWITCHES, "false")
"""What a writer puts there for the time of its run."""


@dataclasses.dataclass
class Scene:
    """A running fleet, an empty lake, and a snapshot of the one in the other."""

    fleet: Fleet
    lake: Lake
    connection: ClusterConnection
    client: KazooClient

    def plan(self, count: int = 5, **wishes: object) -> str:
        manifest = take_snapshot(self.lake, self.connection, SETTINGS)
        return store_plan(self.lake, manifest, make_transfers(self.lake, manifest, count), **wishes)  # type: ignore[arg-type]

    def apply(self, plan_id: str, **wishes: object) -> tuple[RunState, list[StepResult], str]:
        run = apply_plan(self.lake, plan_id, self.connection, SETTINGS, **wishes)  # type: ignore[arg-type]
        return run.state, list(run.results), run.detail

    def journal(self, plan_id: str) -> list[dict[str, object]]:
        base = f"{self.connection.home}/plans/{plan_id}/steps"
        return [json.loads(self.client.get(f"{base}/{name}")[0]) for name in sorted(self.client.get_children(base))]

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was ever written under /evenkeel."""
        return self.client.exists(self.connection.evenkeel_root) is None

    def run(self, plan_id: str, **settings: Any) -> RunRecord:
        """Apply a plan with some settings changed."""
        return apply_plan(self.lake, plan_id, self.connection, dataclasses.replace(SETTINGS, **settings))

    def status(self, plan_id: str) -> PlanStatus:
        path = f"{self.connection.home}/plans/{plan_id}"
        return PlanStatus.decode(self.client.get(path)[0], path)

    @property
    def switches_path(self) -> str:
        return f"{self.connection.pulsar_root}/admin/configuration"

    def switches(self) -> dict[str, str] | None:
        """Pulsar's dynamic configuration now; None where there is none."""
        if self.client.exists(self.switches_path) is None:
            return None
        return dict(json.loads(self.client.get(self.switches_path)[0]))

    def store(self, steps: Sequence[Step], **wishes: Any) -> str:
        """Store steps by a snapshot of now as an approved plan."""
        manifest = take_snapshot(self.lake, self.connection, SETTINGS)
        return store_plan(self.lake, manifest, steps, **wishes)


def expire(view: ZooKeeperClusterView) -> None:
    """End a session from outside: close it by its id and password."""
    session = view._session
    double = KazooClient(session._hosts, client_id=session._client.client_id)
    double.start(timeout=scaled(10.0))
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


def die_in_mid_wave(scene: Scene, plan_id: str) -> None:
    """Apply a plan in a process that is killed while its first step is under way."""
    child = os.fork()
    if child == 0:
        ZooKeeperClusterView.next_changes = lambda view, timeout_s: os.kill(os.getpid(), signal.SIGKILL)  # type: ignore[assignment,method-assign,return-value]
        try:
            apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL


def once_paused(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, deed: Callable[[ZooKeeperClusterView], object]
) -> list[bool]:
    """Do something, once, while Pulsar's switches are off and a step is under way."""
    done: list[bool] = []
    waits = ZooKeeperClusterView.next_changes

    def wait_and_meddle(view: ZooKeeperClusterView, timeout_s: float) -> frozenset[str]:
        if not done and PAUSED.items() <= (scene.switches() or {}).items():
            done.append(True)
            deed(view)
        return waits(view, timeout_s)

    monkeypatch.setattr(ZooKeeperClusterView, "next_changes", wait_and_meddle)
    return done


def set_dynamic(scene: Scene, **values: str) -> None:
    """Set keys of the dynamic configuration as `pulsar-admin` does: one write each, whatever was there before."""
    for key, value in values.items():
        found = {**(scene.switches() or {}), key: value}
        scene.client.set(scene.switches_path, json.dumps(found).encode())
