"""Reading many nodes of a real ZooKeeper, and servers that do not answer."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_digest_acl

from evenkeel.adapters.cluster.reader import read_cluster
from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.adapters.zookeeper.session import WINDOW_REQUESTS, ZooKeeperSession
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.model.settings import Settings
from support.proxies import CuttingProxy
from support.waiting import scaled

DEADLINE_S = 1.0


@pytest.fixture
def session(zookeeper: EmbeddedZooKeeper) -> Iterator[ZooKeeperSession]:
    with ZooKeeperSession(zookeeper.connect_string, 10.0, 10.0) as opened:
        yield opened


def connect(hosts: str, timeout_s: float) -> None:
    with ZooKeeperSession(hosts, timeout_s, timeout_s):
        pass


def test_results_come_in_order_over_several_windows(
    session: ZooKeeperSession, client: KazooClient, pulsar_root: str
) -> None:
    count = 2 * WINDOW_REQUESTS + 3
    client.ensure_path(pulsar_root)
    pending = [client.create_async(f"{pulsar_root}/{n}", str(n).encode()) for n in range(count)]
    for result in pending:
        result.get(timeout=scaled(30))
    nodes = session.get([f"{pulsar_root}/{n}" for n in range(-1, count)])
    assert nodes[0] is None
    assert [int(node.data) for node in nodes[1:] if node is not None] == list(range(count))
    (children,) = session.children([pulsar_root])
    assert children is not None
    assert len(children.names) == count


def test_node_carries_its_stat(session: ZooKeeperSession, client: KazooClient, pulsar_root: str) -> None:
    client.create(f"{pulsar_root}/broker", b"1", ephemeral=True, makepath=True)
    client.set(f"{pulsar_root}/broker", b"2")
    (node,) = session.get([f"{pulsar_root}/broker"])
    assert node is not None
    assert (node.data, node.version, node.ephemeral_owner) == (b"2", 1, client.client_id[0])
    assert node.czxid < node.mzxid <= session.last_zxid


def test_children_tell_the_change_that_last_added_or_removed_one(
    session: ZooKeeperSession, client: KazooClient, pulsar_root: str
) -> None:
    client.create(f"{pulsar_root}/a", b"", makepath=True)
    client.delete(f"{pulsar_root}/a")
    (children, absent) = session.children([pulsar_root, f"{pulsar_root}/nowhere"])
    assert children is not None
    assert children.pzxid == client.last_zxid
    assert absent is None


def test_node_that_an_acl_hides_is_named(session: ZooKeeperSession, client: KazooClient, pulsar_root: str) -> None:
    client.ensure_path(pulsar_root)
    client.create(f"{pulsar_root}/secret", b"", acl=[make_digest_acl("u", "p", read=True, delete=True)])
    with pytest.raises(InputError, match=f"read {pulsar_root}/secret"):
        session.get([f"{pulsar_root}/secret"])
    # The clean-up cannot list it, but whoever may change its parent may delete it.
    client.delete(f"{pulsar_root}/secret")


def test_unreachable_zookeeper_ends_within_its_deadline() -> None:
    with pytest.raises(UnavailableError, match=r"ZooKeeper at 127\.0\.0\.1:1 did not answer within 1 s"):
        connect("127.0.0.1:1", DEADLINE_S)


def test_server_that_accepts_and_says_nothing_ends_within_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(UnavailableError, match=f"{address} did not answer within 1 s"):
            connect(address, DEADLINE_S)


def test_server_that_falls_silent_in_the_midst_is_unavailable(zookeeper: EmbeddedZooKeeper) -> None:
    with (
        CuttingProxy(zookeeper.connect_string) as proxy,
        ZooKeeperSession(proxy.connect_string, 30.0, 1.0) as session,
    ):
        assert session.get(["/"]) != [None]
        with (
            proxy.muted(),
            pytest.raises(UnavailableError, match=r"did not answer for / within 1 s: check that .* has a quorum"),
        ):
            session.get(["/"])


def test_chroot_in_the_address_is_refused() -> None:
    with pytest.raises(InputError, match="chroot"):
        connect("127.0.0.1:2181/pulsar", DEADLINE_S)


def test_cluster_that_is_not_under_the_root_is_refused(zookeeper: EmbeddedZooKeeper) -> None:
    connection = ClusterConnection("lab", zookeeper.connect_string, pulsar_root="/nowhere")
    with (
        open_cluster(connection) as source,
        pytest.raises(InputError, match="no clusters under /nowhere/admin/clusters: is --pulsar-root right"),
    ):
        read_cluster(source, "lab", Settings(), datetime.now(UTC))
