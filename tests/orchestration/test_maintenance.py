"""The Dags of maintenance in a running Airflow on a running fleet: a broker is emptied, and gets its bundles back."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evenkeel.adapters.cluster_source import open_cluster
from evenkeel.adapters.lake import Lake
from evenkeel.adapters.registrations import read_registrations
from evenkeel.cli.local_stack import FleetSize, LocalStack
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle
from evenkeel.orchestration.local_airflow import LocalAirflow
from evenkeel.stages.drain import unmark_brokers
from evenkeel.stages.snapshot import take_snapshot
from support.plans import rows

PROJECT = Path(__file__).resolve().parents[2]
RUN_DEADLINE_S = 600.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterConnection]:
    size = FleetSize(brokers=4, bundles=64, load_manager="extensible", seed=3)
    with LocalStack(tmp_path_factory.mktemp("fleet"), size) as stack:
        yield stack.connection


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(str(tmp_path_factory.mktemp("lake")))


@pytest.fixture(scope="module")
def airflow(cluster: ClusterConnection, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    described = {
        "conn_type": "evenkeel",
        "host": cluster.zookeeper,
        "extra": {"cluster": cluster.cluster, "lake": lake.uri},
    }
    home = tmp_path_factory.mktemp("airflow")
    with LocalAirflow(home, PROJECT, {"evenkeel_default": described}) as running:
        yield running


def run_dag(airflow: LocalAirflow, dag_id: str, params: dict[str, Any]) -> str:
    """Run a Dag to its end and approve what it asks for; answers the Dag run's id."""
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
def test_broker_is_emptied_and_gets_its_bundles_back(
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
