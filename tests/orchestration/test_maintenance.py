"""The Dags in a running Airflow on a running fleet: a broker is drained, a run rolled back, a window used."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.cluster.registrations import read_registrations
from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.adapters.lake.audits import AuditStore
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.local.local_airflow import LocalAirflow
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle
from evenkeel.model.timestamps import parse_time
from evenkeel.stages.drain import unmark_brokers
from evenkeel.stages.snapshot import take_snapshot
from support.plans import rows
from support.scenes import PAUSED, SWITCHES_OF_FLEET, Scene, die_in_mid_wave
from support.waiting import wait_for

PROJECT = Path(__file__).resolve().parents[2]
RUN_DEADLINE_S = 600.0
WINDOW_AFTER = timedelta(minutes=3)


@pytest.fixture(scope="module")
def opening() -> datetime:
    """When the maintenance window opens: the first test plans before it, unless the machine is very busy."""
    return (datetime.now(UTC) + WINDOW_AFTER).replace(second=0, microsecond=0)


@pytest.fixture(scope="module")
def airflow(
    cluster: ClusterConnection, lake: Lake, opening: datetime, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalAirflow]:
    home = tmp_path_factory.mktemp("airflow")
    configuration = home / "evenkeel.toml"
    configuration.write_text(
        f"""
        approval.unsigned = true
        [clusters.{cluster.cluster}]
        zookeeper = "{cluster.zookeeper}"
        lake = "{lake.uri}"
        [[clusters.{cluster.cluster}.windows]]
        name = "test nights"
        rrule = "FREQ=DAILY"
        start = "{opening:%H:%M}"
        duration = "1h"
        time_zone = "UTC"
        lead = "1h"
        cutoff = "5m"
        """
    )
    described = {"conn_type": "evenkeel", "extra": {"config": str(configuration)}}
    env = {"EVENKEEL_CONFIG": str(configuration)}
    with LocalAirflow(home, PROJECT, {"evenkeel_default": described}, env=env) as running:
        yield running


def run_dag(airflow: LocalAirflow, dag_id: str, params: dict[str, Any]) -> str:
    """Run a Dag to its end and approve its plan; returns the id of the Dag run."""
    airflow.unpause(dag_id)
    run_id = airflow.trigger(dag_id, params)
    state = airflow.wait(dag_id, run_id, RUN_DEADLINE_S, on_question=lambda question: True)
    assert state == "success", airflow.task_states(dag_id, run_id)
    return run_id


def owners(lake: Lake, cluster: ClusterConnection) -> dict[str, str | None]:
    manifest = take_snapshot(lake, cluster, Settings())
    bundles: list[Bundle] = rows(lake, manifest, "bundles", Bundle)
    return {bundle.bundle: bundle.owner for bundle in bundles}


@pytest.mark.timeout(2 * RUN_DEADLINE_S)
def test_plan_is_made_before_its_window_and_applied_when_it_opens(
    airflow: LocalAirflow, lake: Lake, opening: datetime
) -> None:
    run_dag(airflow, "collect_load", {})
    airflow.unpause("rebalance_window")
    run_id = airflow.wait_for_first_run("rebalance_window", RUN_DEADLINE_S)
    state = airflow.wait("rebalance_window", run_id, RUN_DEADLINE_S, on_question=lambda question: True)
    assert state == "success", airflow.task_states("rebalance_window", run_id)
    assert run_id.startswith("scheduled__")
    applied = airflow.xcom("rebalance_window", run_id, "apply_plan")
    told = f"{applied['settled']} of {applied['settled']} steps, wave"
    assert told in airflow.task_log("rebalance_window", run_id, "apply_plan")
    plan = PlanStore(lake).load(applied["plan_id"]).plan
    left = opening + timedelta(hours=1) - plan.expires_at
    assert timedelta() <= left < timedelta(seconds=1), "the plan expires with its window"
    events = RunStore(lake).read_events(applied["run_id"])
    assert min(parse_time(event.at) for event in events) >= opening, "nothing began before the window"


@pytest.mark.timeout(2 * RUN_DEADLINE_S)
def test_broker_is_drained_and_the_run_is_rolled_back(
    airflow: LocalAirflow, cluster: ClusterConnection, lake: Lake
) -> None:
    with open_cluster(cluster) as source:
        leaving = read_registrations(source)[0].broker_id
    before = owners(lake, cluster)
    was_there = {bundle for bundle, owner in before.items() if owner == leaving}
    assert was_there

    drain = run_dag(airflow, "drain_broker", {"brokers": [leaving]})
    assert airflow.xcom("drain_broker", drain, "verify_empty") == {"brokers": [leaving], "empty": True}
    drained = owners(lake, cluster)
    assert leaving not in drained.values()
    assert {bundle for bundle, owner in drained.items() if owner != before[bundle]} == was_there

    assert unmark_brokers(cluster, [leaving]) == [leaving]
    run = airflow.xcom("drain_broker", drain, "apply_plan")["run_id"]
    run_dag(airflow, "rollback_plan", {"run": run})
    assert owners(lake, cluster) == before


@pytest.mark.timeout(2 * RUN_DEADLINE_S)
def test_audit_finds_the_runs_before_it(airflow: LocalAirflow, lake: Lake) -> None:
    run_id = run_dag(airflow, "audit_plans", {})
    told = airflow.xcom("audit_plans", run_id, "audit_cluster")
    audit = AuditStore(lake).load(told["cluster"], told["audit_id"])
    assert set(audit.record.runs) == {run.run_id for run in RunStore(lake).records(told["cluster"])}
    assert told["findings"] == dict(audit.record.counts)


@pytest.mark.timeout(2 * RUN_DEADLINE_S)
def test_load_is_collected_and_what_a_dead_writer_left_off_is_restored(
    airflow: LocalAirflow, cluster: ClusterConnection, lake: Lake
) -> None:
    client = KazooClient(cluster.zookeeper)
    client.start()
    scene = Scene(cast(Any, None), lake, cluster, client)
    plan_id = scene.plan(2)
    die_in_mid_wave(scene, plan_id)
    assert scene.switches() == PAUSED
    wait_for(lambda: client.exists(f"{cluster.home}/writer") is None, "the dead writer's session has ended")
    # Unpausing starts a run of its own, which may be the one that finds the switches off.
    run_dag(airflow, "collect_load", {})
    assert scene.status(plan_id).switches is None
    assert scene.switches() == SWITCHES_OF_FLEET
    client.stop()
    client.close()
