"""PIP-57: which ownership nodes a broker with a new session treats as its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from evenkeel.fleet.session_recovery import OwnershipNodes, Reowning
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from support.waiting import scaled, wait_for

KEPT, STALE, TAKEN, ABSENT = BUNDLES = ("t/n/kept", "t/n/stale", "t/n/taken", "t/n/absent")
CALL_TIMEOUT_S = scaled(20.0)


@pytest.fixture
def old_session(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    client = KazooClient(zookeeper.connect_string)
    client.start()
    yield client
    client.stop()
    client.close()


def make_reowning(client: KazooClient, root: str) -> Reowning:
    nodes = OwnershipNodes("b1", b"b1", lambda bundle: f"{root}/{bundle}", lambda data, _path: data.decode())
    return Reowning(client, client.client_id[0], nodes, CALL_TIMEOUT_S)


def put(client: KazooClient, root: str, bundle: str, owner: bytes) -> None:
    client.create(f"{root}/{bundle}", owner, ephemeral=True, makepath=True)


def test_owning_session_decides_about_each_node(
    client: KazooClient, old_session: KazooClient, pulsar_root: str
) -> None:
    put(client, pulsar_root, KEPT, b"b1")
    put(old_session, pulsar_root, STALE, b"b1")
    put(old_session, pulsar_root, TAKEN, b"b2")
    reowning = make_reowning(client, pulsar_root)
    thread = threading.Thread(target=reowning.run, args=(BUNDLES, time.monotonic() + CALL_TIMEOUT_S))
    thread.start()
    wait_for(lambda: reowning.outcome.owned_again == [ABSENT], "the absent node is made")
    assert thread.is_alive()
    assert client.exists(f"{pulsar_root}/{STALE}").ephemeralOwner == old_session.client_id[0]
    old_session.delete(f"{pulsar_root}/{STALE}")
    thread.join(CALL_TIMEOUT_S)
    outcome = reowning.outcome
    assert (outcome.kept, outcome.owned_again, outcome.unloaded) == ([KEPT], [ABSENT, STALE], [TAKEN])
    for bundle in (KEPT, STALE, ABSENT):
        assert client.exists(f"{pulsar_root}/{bundle}").ephemeralOwner == client.client_id[0]


def test_bundle_whose_old_node_goes_to_another_broker_is_unloaded(
    client: KazooClient, old_session: KazooClient, pulsar_root: str
) -> None:
    put(old_session, pulsar_root, STALE, b"b1")
    reowning = make_reowning(client, pulsar_root)
    thread = threading.Thread(target=reowning.run, args=([STALE], time.monotonic() + CALL_TIMEOUT_S))
    thread.start()
    with old_session.transaction() as swap:
        swap.delete(f"{pulsar_root}/{STALE}")
        swap.create(f"{pulsar_root}/{STALE}", b"b2", ephemeral=True)
    thread.join(CALL_TIMEOUT_S)
    assert reowning.outcome.unloaded == [STALE]


def test_bundle_whose_old_node_never_goes_away_is_unloaded_at_the_deadline(
    client: KazooClient, old_session: KazooClient, pulsar_root: str
) -> None:
    put(old_session, pulsar_root, STALE, b"b1")
    outcome = make_reowning(client, pulsar_root).run([STALE], time.monotonic() + 0.3)
    assert (outcome.kept, outcome.owned_again, outcome.unloaded) == ([], [], [STALE])
    assert client.exists(f"{pulsar_root}/{STALE}").ephemeralOwner == old_session.client_id[0]
