"""Reading many nodes of a real ZooKeeper, and servers that do not answer."""

from __future__ import annotations

import socket
import time
from datetime import UTC, datetime

import pytest
from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.security import make_digest_acl

from evenkeel.adapters.cluster_reader import read_cluster
from evenkeel.adapters.cluster_source import open_cluster
from evenkeel.adapters.zookeeper_reading import WINDOW_REQUESTS, KazooTree, connect
from evenkeel.fleet.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.model.settings import Settings

DEADLINE_S = 1.0
GRACE_S = 2.0


def test_results_come_in_order_over_several_windows(client: KazooClient, pulsar_root: str) -> None:
    count = 2 * WINDOW_REQUESTS + 3
    client.ensure_path(pulsar_root)
    pending = [client.create_async(f"{pulsar_root}/{n}", str(n).encode()) for n in range(count)]
    for result in pending:
        result.get(timeout=30)
    nodes = KazooTree(client).get([f"{pulsar_root}/{n}" for n in range(-1, count)])
    assert nodes[0] is None
    assert [int(node.data) for node in nodes[1:] if node is not None] == list(range(count))
    (children,) = KazooTree(client).children([pulsar_root])
    assert children is not None
    assert len(children.names) == count


def test_node_carries_its_stat(client: KazooClient, pulsar_root: str) -> None:
    client.create(f"{pulsar_root}/broker", b"1", ephemeral=True, makepath=True)
    client.set(f"{pulsar_root}/broker", b"2")
    tree = KazooTree(client)
    (node,) = tree.get([f"{pulsar_root}/broker"])
    assert node is not None
    assert (node.data, node.version, node.ephemeral_owner) == (b"2", 1, client.client_id[0])
    assert node.czxid < node.mzxid <= tree.last_zxid


def test_children_tell_the_change_that_last_added_or_removed_one(client: KazooClient, pulsar_root: str) -> None:
    client.create(f"{pulsar_root}/a", b"", makepath=True)
    client.delete(f"{pulsar_root}/a")
    (children, absent) = KazooTree(client).children([pulsar_root, f"{pulsar_root}/nowhere"])
    assert children is not None
    assert children.pzxid == client.last_zxid
    assert absent is None


def test_node_that_an_acl_hides_is_named(client: KazooClient, pulsar_root: str) -> None:
    client.ensure_path(pulsar_root)
    client.create(f"{pulsar_root}/secret", b"", acl=[make_digest_acl("u", "p", read=True, delete=True)])
    with pytest.raises(InputError, match=f"read {pulsar_root}/secret"):
        KazooTree(client).get([f"{pulsar_root}/secret"])
    # The clean-up cannot list it, but whoever may change its parent may delete it.
    client.delete(f"{pulsar_root}/secret")


def test_unreachable_zookeeper_ends_within_its_deadline() -> None:
    begin = time.monotonic()
    with pytest.raises(UnavailableError, match=r"ZooKeeper at 127\.0\.0\.1:1 did not answer within 1 s"):
        connect("127.0.0.1:1", DEADLINE_S)
    assert time.monotonic() - begin < DEADLINE_S + GRACE_S


def test_server_that_accepts_and_says_nothing_ends_within_its_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        begin = time.monotonic()
        with pytest.raises(UnavailableError, match=address):
            connect(address, DEADLINE_S)
        assert time.monotonic() - begin < DEADLINE_S + GRACE_S


def test_server_that_falls_silent_in_the_midst_is_unavailable() -> None:
    class SilentClient:
        def get_async(self, path: str) -> object:
            return SequentialThreadingHandler().async_result()

    begin = time.monotonic()
    with pytest.raises(UnavailableError, match=r"did not answer for /a within 0\.2 s"):
        KazooTree(SilentClient(), deadline_s=0.2).get(["/a", "/b"])
    assert time.monotonic() - begin < GRACE_S


def test_chroot_in_the_address_is_refused() -> None:
    with pytest.raises(InputError, match="chroot"):
        connect("127.0.0.1:2181/pulsar", DEADLINE_S)


def test_cluster_that_is_not_under_the_root_is_refused(zookeeper: EmbeddedZooKeeper) -> None:
    connection = ClusterConnection("lab", zookeeper.connect_string, pulsar_root="/nowhere")
    with (
        open_cluster(connection) as source,
        pytest.raises(InputError, match="/nowhere/admin/clusters knows no cluster 'lab'"),
    ):
        read_cluster(source, "lab", Settings(), datetime.now(UTC))
