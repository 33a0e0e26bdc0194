"""The kill switch and the marks for draining, on a real ZooKeeper."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.fencing.directives import Draining, KillSwitch
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.directives import Directive
from evenkeel.model.errors import InputError, RefusedError

ORDER = Directive("ada", "2026-01-31T03:00:00.000Z", "consumers lag")
B1, B2 = "b1:8080", "b2:8080"


@pytest.fixture
def connection(zookeeper: EmbeddedZooKeeper, pulsar_root: str) -> ClusterConnection:
    return ClusterConnection(
        "lab", zookeeper.connect_string, pulsar_root=pulsar_root, evenkeel_root=f"{pulsar_root}/evenkeel"
    )


@pytest.fixture
def session(connection: ClusterConnection) -> Iterator[ZooKeeperSession]:
    with ZooKeeperSession(connection.zookeeper, 10.0, 10.0) as session:
        yield session


@pytest.fixture
def brokers(client: KazooClient, pulsar_root: str) -> None:
    for broker in (B1, B2):
        client.create(f"{pulsar_root}/loadbalance/brokers/{broker}", b"{}", makepath=True)


def test_stop_works_before_anything_was_ever_written(
    session: ZooKeeperSession, connection: ClusterConnection, client: KazooClient
) -> None:
    switch = KillSwitch(session, connection)
    assert switch.read() is None
    pulled = switch.pull(ORDER)
    assert (pulled.is_new, pulled.writer, pulled.fence_before, pulled.fence_after) == (True, None, 0, 1)
    data, _ = client.get(f"{connection.home}/stop")
    assert json.loads(data) == {"who": "ada", "when": "2026-01-31T03:00:00.000Z", "reason": "consumers lag"}
    assert switch.read() == ORDER


def test_stop_raises_the_fence_in_the_same_transaction(
    session: ZooKeeperSession, connection: ClusterConnection, client: KazooClient
) -> None:
    client.create(f"{connection.home}/fence", b"a writer's token", makepath=True)
    KillSwitch(session, connection).pull(ORDER)
    fence, stop = client.exists(f"{connection.home}/fence"), client.exists(f"{connection.home}/stop")
    assert fence.version == 1, "a writer that took the fence at version 0 can write no more"
    assert fence.mzxid == stop.czxid


def test_second_stop_changes_nothing_and_names_the_first(
    session: ZooKeeperSession, connection: ClusterConnection, client: KazooClient
) -> None:
    switch = KillSwitch(session, connection)
    switch.pull(ORDER)
    before = client.exists(f"{connection.home}/fence")
    second = switch.pull(Directive("bob", "2026-01-31T03:05:00.000Z"))
    assert (second.directive, second.is_new, second.fence_before, second.fence_after) == (ORDER, False, 1, 1)
    assert client.exists(f"{connection.home}/fence") == before
    assert str(ORDER) == "ada at 2026-01-31T03:00:00.000Z (consumers lag)"


def test_resume_tells_what_stood_and_may_be_repeated(session: ZooKeeperSession, connection: ClusterConnection) -> None:
    switch = KillSwitch(session, connection)
    switch.pull(ORDER)
    assert [switch.release(), switch.release(), switch.read()] == [ORDER, None, None]


@pytest.mark.parametrize(
    ("data", "told"), [(b"", "somebody"), (b"maintenance", "somebody (maintenance)"), (b"[]", "somebody ([])")]
)
def test_node_made_by_other_means_stops_too(
    session: ZooKeeperSession, connection: ClusterConnection, client: KazooClient, data: bytes, told: str
) -> None:
    client.create(f"{connection.home}/stop", data, makepath=True)
    assert str(KillSwitch(session, connection).pull(ORDER).directive) == told


def make_writer(client: KazooClient, connection: ClusterConnection, epoch: int) -> None:
    note = {"holder": "host7:99:token", "user": "eve", "plan_id": "cafe", "epoch": epoch}
    client.create(f"{connection.home}/writer", json.dumps(note).encode(), ephemeral=True, makepath=True)


def test_writer_that_a_bare_node_did_not_shut_out_is_shut_out_by_the_command(
    session: ZooKeeperSession, connection: ClusterConnection, client: KazooClient
) -> None:
    client.create(f"{connection.home}/fence", b"", makepath=True)
    make_writer(client, connection, epoch=0)
    client.create(f"{connection.home}/stop", b"")
    pulled = KillSwitch(session, connection).pull(ORDER)
    assert (pulled.is_new, pulled.fence_before, pulled.fence_after) == (False, 0, 1)
    assert str(pulled.writer) == "eve on host7 (process 99), plan cafe, epoch 0"
    assert client.exists(f"{connection.home}/fence").version == 1


def test_second_stop_leaves_a_writer_alone_that_only_tears_down(
    session: ZooKeeperSession, connection: ClusterConnection, client: KazooClient
) -> None:
    switch = KillSwitch(session, connection)
    switch.pull(ORDER)
    make_writer(client, connection, epoch=1)
    pulled = switch.pull(ORDER)
    assert (pulled.fence_before, pulled.fence_after) == (1, 1)


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b'{"epoch": "x", "holder": 7, "user": null}'])
def test_writer_with_an_odd_node_is_stopped_too(
    session: ZooKeeperSession, connection: ClusterConnection, client: KazooClient, data: bytes
) -> None:
    client.create(f"{connection.home}/writer", data, ephemeral=True, makepath=True)
    pulled = KillSwitch(session, connection).pull(ORDER)
    assert (str(pulled.writer), pulled.fence_after) == ("somebody", 1)


@pytest.mark.usefixtures("brokers")
def test_marks_come_and_go(session: ZooKeeperSession, connection: ClusterConnection) -> None:
    draining = Draining(session, connection)
    draining.mark([B1], ORDER)
    draining.mark([B1, B2], Directive("bob", "later"))
    assert draining.marked() == {B1: ORDER, B2: Directive("bob", "later")}, "the first mark stands"
    assert draining.unmark([B1, "b3:8080"]) == [B1]
    assert draining.unmark([B1]) == []
    assert list(draining.marked()) == [B2]


@pytest.mark.usefixtures("brokers")
def test_broker_that_is_not_registered_leaves_no_mark_at_all(
    session: ZooKeeperSession, connection: ClusterConnection
) -> None:
    draining = Draining(session, connection)
    with pytest.raises(RefusedError, match="broker b9:8080 is not registered"):
        draining.mark([B1, "b9:8080"], ORDER)
    assert draining.marked() == {}


@pytest.mark.parametrize("name", ["", "a/b"])
def test_name_that_is_no_broker_id_is_refused(
    session: ZooKeeperSession, connection: ClusterConnection, name: str
) -> None:
    with pytest.raises(InputError, match="is not a broker id"):
        Draining(session, connection).mark([name], ORDER)
