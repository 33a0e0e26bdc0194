"""Stopping and resuming a cluster by name, on a real ZooKeeper: a name that nobody knows writes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from kazoo.client import KazooClient

from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.stages.drain import mark_brokers, unmark_brokers
from evenkeel.stages.kill_switch import resume_writing, stop_writing

BROKER = "b1:8080"
ORDERS: dict[str, Callable[[ClusterConnection], object]] = {
    "stop": lambda connection: stop_writing(connection, "ada", "a test"),
    "resume": resume_writing,
    "drain": lambda connection: mark_brokers(connection, [BROKER], "ada", "a test"),
    "undrain": lambda connection: unmark_brokers(connection, [BROKER]),
}


@pytest.fixture
def connection(zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient) -> ClusterConnection:
    client.create(f"{pulsar_root}/admin/clusters/lab", b"{}", makepath=True)
    client.create(f"{pulsar_root}/admin/clusters/global", b"{}")
    client.create(f"{pulsar_root}/loadbalance/brokers/{BROKER}", b"{}", makepath=True)
    return ClusterConnection(
        "lab", zookeeper.connect_string, pulsar_root=pulsar_root, evenkeel_root=f"{pulsar_root}/evenkeel", timeout_s=5.0
    )


def test_cluster_that_zookeeper_knows_is_stopped_and_resumed(
    connection: ClusterConnection, client: KazooClient
) -> None:
    own = stop_writing(connection, "ada", "a test").own
    assert (own.pulled.directive.who, own.pulled.is_new, own.pulled.writer, own.has_let_go) == ("ada", True, None, None)
    assert client.exists(f"{connection.home}/stop") is not None
    assert resume_writing(connection).directive == own.pulled.directive
    assert client.exists(f"{connection.home}/stop") is None


@pytest.mark.parametrize("order", ORDERS)
def test_cluster_that_zookeeper_does_not_know_is_refused_and_nothing_is_written(
    connection: ClusterConnection, client: KazooClient, order: str
) -> None:
    with pytest.raises(InputError, match=r"^no cluster 'lav' under /.*/admin/clusters: the clusters there are lab$"):
        ORDERS[order](replace(connection, cluster="lav"))
    assert client.exists(connection.evenkeel_root) is None


@pytest.mark.parametrize("order", ORDERS)
def test_root_without_clusters_is_refused_and_nothing_is_written(
    connection: ClusterConnection, client: KazooClient, order: str
) -> None:
    with pytest.raises(InputError, match=r"^no clusters under /nowhere/admin/clusters: is --pulsar-root right"):
        ORDERS[order](replace(connection, pulsar_root="/nowhere"))
    assert client.exists(connection.evenkeel_root) is None


def test_cluster_that_was_ever_written_to_is_stopped_without_its_configuration_store(
    connection: ClusterConnection, client: KazooClient
) -> None:
    away = replace(connection, configuration_zookeeper="127.0.0.1:1", timeout_s=1.0)
    with pytest.raises(UnavailableError, match="ZooKeeper at 127.0.0.1:1 did not answer"):
        stop_writing(away, "ada", "an emergency")
    client.create(f"{connection.home}/fence", b"a writer's token", makepath=True)
    stop_writing(away, "ada", "an emergency")
    assert client.exists(f"{connection.home}/stop") is not None


def test_mistyped_name_is_refused_although_an_earlier_mistake_left_a_fence_behind(
    connection: ClusterConnection, client: KazooClient
) -> None:
    mistyped = replace(connection, cluster="lav")
    client.create(f"{mistyped.home}/fence", b"stopped by ada", makepath=True)
    with pytest.raises(InputError, match=r"^no cluster 'lav' under /.*/admin/clusters: the clusters there are lab$"):
        stop_writing(mistyped, "ada", "a test")
    assert client.get_children(mistyped.home) == ["fence"]


def test_pulsars_entry_beside_the_clusters_is_no_cluster(connection: ClusterConnection, client: KazooClient) -> None:
    with pytest.raises(InputError, match="no cluster 'global' under"):
        stop_writing(replace(connection, cluster="global"), "ada", "a test")
    assert client.exists(connection.evenkeel_root) is None


def test_name_is_looked_up_in_the_configuration_store(
    connection: ClusterConnection, zookeeper: EmbeddedZooKeeper, client: KazooClient
) -> None:
    stop_writing(replace(connection, configuration_zookeeper=zookeeper.connect_string), "ada", "a test")
    assert client.exists(f"{connection.home}/stop") is not None
