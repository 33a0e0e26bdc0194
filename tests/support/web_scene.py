"""What the page is tested on: a fleet, plans in a lake, an Airflow with a Dag that asks about one, and its users."""

from __future__ import annotations

import dataclasses
import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.fleet.fleet import Fleet
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.local.local_airflow import LocalAirflow
from evenkeel.model.approval import ApprovalRules
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.plan import Step
from evenkeel.model.request import STRATEGIES
from evenkeel.model.settings import Settings
from evenkeel.stages.check import check_plan
from evenkeel.stages.plan import make_plan
from evenkeel.stages.snapshot import take_snapshot
from support.fleets import running_fleet
from support.plans import make_transfers, store_plan
from support.waiting import scaled

PROJECT = Path(__file__).resolve().parents[2]
MASTER = "local[1]"
PLAN_DEADLINE_S = 240.0
REQUEST_TIMEOUT_S = 60.0
VIEWER, NOBODY = "viewer", "nobody"
MANY_STEPS = 10_000
HAND_OVER_S = 6.0
DAG_ID = "rebalance_window"
OTHER_DAG_ID = "unrelated"
# One step a wave and slow hand-overs, so that a run lasts long enough to be watched and stopped.
SETTINGS = {"wave_steps": 1, "session_timeout_s": 10.0, "step_deadline_s": 60.0, "verify_wait_s": 5.0}
DAG = '''
"""Asks about a plan that is in the lake already, and applies it as the real Dag does; Airflow parses this too."""
from airflow.sdk import Param, task

from evenkeel.orchestration.applying import approve_and_apply
from evenkeel.orchestration.checking import check_request
from evenkeel.orchestration.clusters import find_clusters
from evenkeel.orchestration.connection import open_access
from evenkeel.orchestration.parameters import approval_params
from evenkeel.orchestration.plan_summary import summarise_plan

params = {"plan_id": Param("", type="string"), "max_steps": Param(None, type=["null", "integer"]), **approval_params()}


@task(multiple_outputs=False)
def check_plan(params):
    from evenkeel.adapters.lake.plans import PlanStore

    return summarise_plan(PlanStore(open_access(None).lake).load(params["plan_id"]), [])


@task
def nothing():
    return {"plan": "none"}


(cluster,) = find_clusters()
with cluster.dag("rebalance_window", "Asks.", params=params):
    approve_and_apply(cluster, check_request(None, list(params)), check_plan())
with cluster.dag("unrelated", "Does nothing."):
    nothing()
'''


@dataclass(frozen=True, slots=True)
class WebScene:
    """A fleet and a lake with two plans that were made by the planner, and one with very many steps."""

    fleet: Fleet
    lake: Lake
    connection: ClusterConnection
    first_plan: str
    second_plan: str
    long_plan: str

    @property
    def cluster(self) -> str:
        return self.connection.cluster

    def airflow_connection(self) -> dict[str, Any]:
        extra = {
            "cluster": self.cluster,
            "lake": self.lake.uri,
            "pulsar_root": self.connection.pulsar_root,
            "evenkeel_root": self.connection.evenkeel_root,
            "settings": SETTINGS,
            "approval": {"unsigned": True},
        }
        return {"conn_type": "evenkeel", "host": self.connection.zookeeper, "extra": json.dumps(extra)}


@contextmanager
def open_scene(zookeeper: EmbeddedZooKeeper, folder: Path) -> Iterator[WebScene]:

    root = f"/web-{secrets.token_hex(4)}"
    wishes: dict[str, Any] = {
        "brokers": 6,
        "bundles": 120,
        "seed": 7,
        "hand_over_delay_s": HAND_OVER_S,
        "in_flight_limit_s": scaled(60.0),
    }
    with running_fleet(zookeeper, root, **wishes) as fleet:
        connection = ClusterConnection(
            fleet.settings.cluster, zookeeper.connect_string, pulsar_root=root, evenkeel_root=f"{root}/evenkeel"
        )
        lake, settings = Lake(str(folder / "lake")), Settings.from_json(SETTINGS)
        manifest = take_snapshot(lake, connection, settings)
        plans = []
        for tolerance in (0.05, 0.08):
            chosen = dataclasses.replace(settings, tolerance=tolerance)
            made = make_plan(
                *(lake, connection.cluster, manifest.snapshot_id, STRATEGIES[0], chosen, MASTER, folder),
                *(scaled(PLAN_DEADLINE_S), lambda stage: None),
            )
            check_plan(lake, made["plan_id"], MASTER, ApprovalRules(unsigned=True)).require_passed()
            plans.append(made["plan_id"])
        yield WebScene(
            fleet, lake, connection, *plans, long_plan=_store_long_plan(lake, connection, manifest.snapshot_id)
        )


def _store_long_plan(lake: Lake, connection: ClusterConnection, snapshot_id: str) -> str:
    """A plan with as many steps as one response has; only to be looked at."""
    manifest = SnapshotStore(lake).load(connection.cluster, snapshot_id)
    known = make_transfers(lake, manifest, 50)
    steps: list[Step] = []
    for order in range(MANY_STEPS):
        pattern = known[order % len(known)]
        lower = order * 0x10000
        name = f"tenant-{order % 12}/ns-{order % 40}/0x{lower:08x}_0x{lower + 0x10000:08x}"
        steps.append(
            dataclasses.replace(pattern, order=order, wave=order // 100, bundle=name, reason=f"reason {order} in words")
        )
    plan_id = store_plan(lake, manifest, steps, is_approved=False)
    PlanStore(lake).write_report(plan_id, "<!doctype html><script>document.title='ran'</script><p>a report</p>")
    return plan_id


@contextmanager
def open_airflow(scene: WebScene, folder: Path, **env: str) -> Iterator[LocalAirflow]:
    """An Airflow with the page, its operator and two users with fewer rights."""
    dags = folder / "dags"
    dags.mkdir()
    (dags / "shown.py").write_text(DAG)
    users = f"operator:admin,{VIEWER}:viewer,{NOBODY}:"
    wanted = {"AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": users, **env}
    connections = {"evenkeel_default": scene.airflow_connection()}
    ids = [DAG_ID, OTHER_DAG_ID]
    started = LocalAirflow(folder / "home", PROJECT, connections, dags=dags, dag_ids=ids, env=wanted)
    with started as airflow:
        for dag_id in ids:
            airflow.unpause(dag_id)
        yield airflow


def password_of(airflow: LocalAirflow, user: str) -> str:
    return str(json.loads(airflow.password_file.read_text())[user])


def client_of(airflow: LocalAirflow, user: str | None) -> httpx.Client:
    """A client as a user of Airflow; None is somebody without a login."""
    options: dict[str, Any] = {"timeout": scaled(REQUEST_TIMEOUT_S), "trust_env": False}
    headers = {}
    if user is not None:
        login = {"username": user, "password": password_of(airflow, user)}
        answer = httpx.post(f"{airflow.url}/auth/token", json=login, **options)
        answer.raise_for_status()
        headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
    return httpx.Client(base_url=airflow.url, headers=headers, **options)
