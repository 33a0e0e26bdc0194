"""The fence, the journal, and what ZooKeeper itself refuses."""

from __future__ import annotations

import dataclasses
import secrets
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.fence import Fence
from evenkeel.adapters.guarded_writer import Journal
from evenkeel.adapters.zookeeper import (
    TransactionRefusedError,
    ZooKeeperSession,
    check,
    create,
    set_data,
)
from evenkeel.fleet.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import FencedOutError, RefusedError, RunStoppedError, UnavailableError
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.settings import Settings

SETTINGS = Settings(session_timeout_s=1.0)
PLAN = "f" * 64


@pytest.fixture
def home(client: KazooClient) -> Iterator[str]:
    path = f"/evenkeel-{secrets.token_hex(4)}/lab"
    client.create(f"{path}/bundle", b"before", makepath=True)
    yield path
    client.delete(path.rpartition("/")[0], recursive=True)


@pytest.fixture
def session(zookeeper: EmbeddedZooKeeper) -> Iterator[ZooKeeperSession]:
    with ZooKeeperSession(zookeeper.connect_string, 2.0, 5.0) as opened:
        yield opened


def entry(epoch: int, state: StepState = StepState.APPLIED) -> JournalEntry:
    return JournalEntry(PLAN, 0, "t/n/0x00000000_0xffffffff", "b1:8080", "b2:8080", epoch, state, 1)


def test_each_acquisition_raises_the_epoch(session: ZooKeeperSession, home: str, client: KazooClient) -> None:
    fence = Fence(session, home, SETTINGS)
    first = fence.acquire(PLAN)
    fence.release()
    assert fence.acquire(PLAN) == first + 1 == client.exists(f"{home}/fence").version


def test_second_writer_is_refused_and_the_holder_is_named(
    session: ZooKeeperSession, zookeeper: EmbeddedZooKeeper, home: str
) -> None:
    Fence(session, home, SETTINGS).acquire(PLAN)
    with (
        ZooKeeperSession(zookeeper.connect_string, 2.0, 5.0) as other,
        pytest.raises(RefusedError, match=f"another writer is at work: .*{PLAN}.*: wait until it has ended"),
    ):
        Fence(other, home, SETTINGS).acquire(PLAN)


def test_dead_writer_may_keep_its_node_for_longer_than_a_session(
    session: ZooKeeperSession, home: str, client: KazooClient
) -> None:
    client.create(f"{home}/writer", b"dead since a moment")
    expiry = threading.Timer(1.5 * SETTINGS.session_timeout_s, client.delete, [f"{home}/writer"])
    expiry.start()
    assert Fence(session, home, SETTINGS).acquire(PLAN) == 1
    expiry.join()


def test_writer_with_an_old_epoch_is_refused_and_its_effect_does_not_happen(
    session: ZooKeeperSession, zookeeper: EmbeddedZooKeeper, home: str, client: KazooClient
) -> None:
    old = Fence(session, home, SETTINGS)
    journal = Journal(session, home, old)
    epoch = old.acquire(PLAN)
    journal.open(PLAN)
    client.delete(f"{home}/writer")
    with ZooKeeperSession(zookeeper.connect_string, 2.0, 5.0) as other:
        Fence(other, home, SETTINGS).acquire(PLAN)
        with pytest.raises(FencedOutError, match="another writer has taken over"):
            journal.write(entry(epoch), [set_data("bundle", f"{home}/bundle", b"after", 0)])
    assert client.get(f"{home}/bundle")[0] == b"before"
    assert client.get_children(f"{home}/plans/{PLAN}/steps") == []


def test_writer_whose_session_is_gone_is_refused_by_the_server(
    session: ZooKeeperSession, home: str, client: KazooClient
) -> None:
    fence = Fence(session, home, SETTINGS)
    journal = Journal(session, home, fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    client.delete(f"{home}/writer")
    with pytest.raises(FencedOutError, match="session expired"):
        journal.write(entry(epoch))


def test_entry_and_effect_are_both_or_neither(session: ZooKeeperSession, home: str, client: KazooClient) -> None:
    fence = Fence(session, home, SETTINGS)
    journal = Journal(session, home, fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    client.set(f"{home}/bundle", b"changed")
    with pytest.raises(RefusedError, match="was changed by another hand"):
        journal.write(entry(epoch), [set_data("bundle", f"{home}/bundle", b"after", 0)])
    assert journal.entries(PLAN) == {}
    journal.write(entry(epoch), [set_data("bundle", f"{home}/bundle", b"after", 1)])
    assert client.get(f"{home}/bundle")[0] == b"after"
    assert journal.entries(PLAN) == {0: entry(epoch)}


def test_missing_destination_is_named(session: ZooKeeperSession, home: str) -> None:
    fence = Fence(session, home, SETTINGS)
    journal = Journal(session, home, fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    with pytest.raises(RefusedError, match="broker b2:8080 is not registered"):
        journal.write(entry(epoch), [check("destination", f"{home}/no-such-broker")])


def test_clock_that_is_off_must_not_write(
    session: ZooKeeperSession, home: str, monkeypatch: pytest.MonkeyPatch, client: KazooClient
) -> None:
    import time

    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() + 60.0)
    with pytest.raises(RefusedError, match=r"clock is (59|60)\.\d s off ZooKeeper's, the limit is 5.0 s"):
        Fence(session, home, SETTINGS).acquire(PLAN)
    assert client.exists(f"{home}/writer") is None


def test_transaction_that_kazoo_would_fail_silently_raises(session: ZooKeeperSession, home: str) -> None:
    with pytest.raises(TransactionRefusedError) as refusal:
        session.commit([check("wrong", f"{home}/bundle", 99), create("new", f"{home}/new", b"")])
    assert refusal.value.operation == "wrong"


def test_lost_session_refuses_everything_for_good(zookeeper: EmbeddedZooKeeper, home: str) -> None:
    session = ZooKeeperSession(zookeeper.connect_string, 2.0, 5.0)
    with session:
        session.read([f"{home}/bundle"])
        session._on_state("LOST")
        with pytest.raises(RunStoppedError, match="has expired: see that ZooKeeper is well"):
            session.read([f"{home}/bundle"])


def test_unreachable_zookeeper_is_one_sentence() -> None:
    with (
        pytest.raises(UnavailableError, match="ZooKeeper at 127.0.0.1:1 did not answer within 1 s: check the address"),
        ZooKeeperSession("127.0.0.1:1", 2.0, 1.0),
    ):
        pass


def test_journal_of_another_version_is_refused(session: ZooKeeperSession, home: str) -> None:
    fence = Fence(session, home, SETTINGS)
    journal = Journal(session, home, fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    journal.write(dataclasses.replace(entry(epoch), schema_version=99))
    with pytest.raises(Exception, match="has schema version 99, this library knows 1"):
        journal.entries(PLAN)
