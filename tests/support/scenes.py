"""A running fleet with a lake beside it: what applying a plan is tested on."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

from kazoo.client import KazooClient

from evenkeel.adapters.lake import Lake
from evenkeel.fleet.fleet import Fleet
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.plan import Step
from evenkeel.model.run import PlanStanding, RunRecord, RunState, StepResult
from evenkeel.model.settings import Settings
from evenkeel.stages.apply import apply_plan
from evenkeel.stages.snapshot import take_snapshot
from support.plans import make_transfers, store_plan

SETTINGS = Settings(
    session_timeout_s=2.0,
    step_deadline_s=10.0,
    verify_wait_s=5.0,
    safe_mode_wait_s=0.5,
    safe_mode_deadline_s=10.0,
    stop_wait_s=5.0,
)
SWITCHES_OF_FLEET = {"loadBalancerSheddingEnabled": "true"}
"""What a fleet has in Pulsar's dynamic configuration when it starts."""


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

    def standing(self, plan_id: str) -> PlanStanding:
        path = f"{self.connection.home}/plans/{plan_id}"
        return PlanStanding.decode(self.client.get(path)[0], path)

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
