"""Which clusters get Dags, how these are called, and what each of them is connected to."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from evenkeel.model.errors import InputError
from evenkeel.orchestration.clusters import DagCluster, find_clusters
from evenkeel.orchestration.connection import open_access

RULE = "name = 'n'\ndays = ['sun']\nstart = '02:00'\nduration = '3h'\ntime_zone = 'UTC'\n"
TWO = """
default_cluster = "prod"
[clusters.prod]
zookeeper = "zk1:2181"
lake = "lake"
[clusters."eu:west"]
zookeeper = "zk2:2181"
lake = "lake"
spark_connection = "spark_eu"
"""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    configuration = tmp_path / "evenkeel.toml"
    configuration.write_text("")
    monkeypatch.setenv("EVENKEEL_CONFIG", str(configuration))
    return configuration


def test_without_clusters_there_is_one_set_for_the_default_connection(file: Path) -> None:
    assert find_clusters() == [DagCluster()]
    (cluster,) = find_clusters()
    dag = cluster.dag("rebalance_window", "What it does.")
    assert (dag.dag_id, dag.dag_display_name, dag.tags) == ("rebalance_window", "rebalance window", {"evenkeel"})
    assert (cluster.pool, cluster.spark_connection) == ("evenkeel_writer", "spark_default")


def test_default_cluster_keeps_the_plain_ids_and_others_get_their_name(file: Path) -> None:
    file.write_text(TWO)
    dags = {cluster.name: cluster.dag("drain_broker", None) for cluster in find_clusters()}
    assert {name: dag.dag_id for name, dag in dags.items()} == {
        "prod": "drain_broker",
        "eu:west": "drain_broker__eu-west",
    }
    assert dags["eu:west"].dag_display_name == "drain broker · eu:west"
    assert dags["eu:west"].tags == {"evenkeel", "cluster:eu:west"}
    pools = {cluster.name: (cluster.pool, cluster.spark_connection) for cluster in find_clusters()}
    assert pools == {
        "prod": ("evenkeel_writer", "spark_default"),
        "eu:west": ("evenkeel_writer__eu-west", "spark_eu"),
    }


def test_clusters_whose_dags_would_have_the_same_ids_are_refused(file: Path) -> None:
    file.write_text("[clusters.'a:b']\nlake = 'x'\n[clusters.'a=b']\nlake = 'x'\n")
    with pytest.raises(InputError, match="the Dags of clusters 'a:b' and 'a=b' would have the same ids"):
        find_clusters()


def test_windows_schedule_the_dags_of_their_own_cluster_only(file: Path) -> None:
    file.write_text(f"{TWO}[[clusters.'eu:west'.windows]]\n{RULE}")
    schedules = {cluster.name: cluster.windows for cluster in find_clusters()}
    assert schedules["prod"] is None
    assert schedules["eu:west"] is not None
    assert [rule.name for rule in schedules["eu:west"].calendar.rules] == ["n"]


def test_broken_configuration_is_one_sentence(file: Path) -> None:
    file.write_text("[clusters.prod")
    with pytest.raises(InputError, match="is not TOML"):
        find_clusters()


def test_task_gets_its_cluster_from_the_configuration_file(file: Path) -> None:
    file.write_text(TWO)
    access = open_access("eu:west")
    assert (access.cluster, access.connection.zookeeper) == ("eu:west", "zk2:2181")
    assert access.lake.uri == (file.parent / "lake").as_uri()
    with pytest.raises(InputError, match="cluster 'west' is not in"):
        open_access("west")


def test_airflow_connection_that_a_cluster_names_goes_before_the_file(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.write_text("[clusters.prod]\nzookeeper = 'zk1:2181'\nlake = 'lake'\nairflow_connection = 'ek_prod'\n")
    extra = {"pulsar_root": "/pulsar"}
    described = {"conn_type": "evenkeel", "host": "zk9:2181", "extra": extra}
    monkeypatch.setenv("AIRFLOW_CONN_EK_PROD", json.dumps(described))
    access = open_access("prod")
    assert (access.connection.zookeeper, access.connection.pulsar_root) == ("zk9:2181", "/pulsar")
    assert access.lake.uri == (file.parent / "lake").as_uri()
    monkeypatch.setenv("AIRFLOW_CONN_EK_PROD", json.dumps(described | {"extra": {"cluster": "test"}}))
    with pytest.raises(InputError, match="connection 'ek_prod': it is for another cluster than 'prod'"):
        open_access("prod")


def test_cluster_without_address_is_refused_by_its_name(file: Path) -> None:
    file.write_text("[clusters.prod]\nlake = 'lake'\n")
    with pytest.raises(InputError, match="cluster 'prod': the ZooKeeper hosts are missing"):
        open_access("prod")
