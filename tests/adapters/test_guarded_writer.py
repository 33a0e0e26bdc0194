"""The fence, the journal, and what ZooKeeper itself refuses."""

from __future__ import annotations

import dataclasses
import secrets
import threading
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.fencing.fence import Fence
from evenkeel.adapters.fencing.journal import Journal
from evenkeel.adapters.zookeeper.nodes import TransactionRefusedError, check, create, set_data
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import FencedOutError, RefusedError, RunStoppedError, UnavailableError
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.settings import Settings
from support.clocks import SteppedClock
from support.journals import write
from support.waiting import scaled

SETTINGS = Settings(session_timeout_s=scaled(1.0))
PLAN = "f" * 64


@pytest.fixture
def home(client: KazooClient) -> Iterator[str]:
    path = f"/evenkeel-{secrets.token_hex(4)}/lab"
    client.create(f"{path}/bundle", b"before", makepath=True)
    yield path
    client.delete(path.rpartition("/")[0], recursive=True)


@pytest.fixture
def session(zookeeper: EmbeddedZooKeeper) -> Iterator[ZooKeeperSession]:
    with ZooKeeperSession(zookeeper.connect_string, 10.0, 10.0) as opened:
        yield opened


def entry(epoch: int, state: StepState = StepState.APPLIED) -> JournalEntry:
    return JournalEntry(PLAN, 0, "t/n/0x00000000_0xffffffff", "b1:8080", "b2:8080", epoch, state, 1)


def test_each_acquisition_raises_the_epoch(session: ZooKeeperSession, home: str, client: KazooClient) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    first = fence.acquire(PLAN)
    fence.release()
    assert fence.acquire(PLAN) == first + 1 == client.exists(f"{home}/fence").version


def test_second_writer_is_refused_and_the_holder_is_named(
    session: ZooKeeperSession, zookeeper: EmbeddedZooKeeper, home: str
) -> None:
    Fence(session, EvenkeelPaths(home), SETTINGS).acquire(PLAN)
    with (
        ZooKeeperSession(zookeeper.connect_string, 10.0, 10.0) as other,
        pytest.raises(RefusedError, match=f"another writer is at work: .*plan {PLAN[:12]}, .*: wait until"),
    ):
        Fence(other, EvenkeelPaths(home), SETTINGS).acquire(PLAN)


def test_dead_writer_may_keep_its_node_for_longer_than_a_session(
    session: ZooKeeperSession, home: str, client: KazooClient
) -> None:
    client.create(f"{home}/writer", b"dead since a moment")
    expiry = threading.Timer(1.5 * SETTINGS.session_timeout_s, client.delete, [f"{home}/writer"])
    expiry.start()
    assert Fence(session, EvenkeelPaths(home), SETTINGS).acquire(PLAN) == 1
    expiry.join()


def test_writer_with_an_old_epoch_is_refused_and_its_effect_does_not_happen(
    session: ZooKeeperSession, zookeeper: EmbeddedZooKeeper, home: str, client: KazooClient
) -> None:
    old = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), old)
    epoch = old.acquire(PLAN)
    journal.open(PLAN)
    client.delete(f"{home}/writer")
    with ZooKeeperSession(zookeeper.connect_string, 10.0, 10.0) as other:
        Fence(other, EvenkeelPaths(home), SETTINGS).acquire(PLAN)
        with pytest.raises(FencedOutError, match="another writer has taken over"):
            write(journal, entry(epoch), [set_data("bundle", f"{home}/bundle", b"after", 0)])
    assert client.get(f"{home}/bundle")[0] == b"before"
    assert client.get_children(f"{home}/plans/{PLAN}/steps") == []


def test_writer_whose_session_is_gone_is_refused_by_the_server(
    session: ZooKeeperSession, home: str, client: KazooClient
) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    client.delete(f"{home}/writer")
    with pytest.raises(FencedOutError, match="session expired"):
        write(journal, entry(epoch))


def test_entry_and_effect_are_both_or_neither(session: ZooKeeperSession, home: str, client: KazooClient) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    client.set(f"{home}/bundle", b"changed")
    with pytest.raises(RefusedError, match="was changed by somebody else"):
        write(journal, entry(epoch), [set_data("bundle", f"{home}/bundle", b"after", 0)])
    assert journal.entries(PLAN) == {}
    write(journal, entry(epoch), [set_data("bundle", f"{home}/bundle", b"after", 1)])
    assert client.get(f"{home}/bundle")[0] == b"after"
    assert journal.entries(PLAN) == {0: entry(epoch)}


def test_missing_destination_is_named(session: ZooKeeperSession, home: str) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    with pytest.raises(RefusedError, match="broker b2:8080 is not registered"):
        write(journal, entry(epoch), [check("destination", f"{home}/no-such-broker")])


def test_clock_that_is_off_must_not_write(session: ZooKeeperSession, home: str, client: KazooClient) -> None:
    with pytest.raises(RefusedError, match=r"clock is (59|60)\.\d s off ZooKeeper's, the limit is 5.0 s"):
        Fence(session, EvenkeelPaths(home), SETTINGS, SteppedClock(60.0)).acquire(PLAN)
    assert sorted(client.get_children(home)) == ["bundle", "fence"]


def test_clock_is_measured_again_by_what_the_writer_has_written(session: ZooKeeperSession, home: str) -> None:
    clock = SteppedClock()
    fence = Fence(session, EvenkeelPaths(home), SETTINGS, clock)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    before = fence.clock.read()
    write(journal, entry(epoch))
    fence.measure_clock(before, f"{home}/plans/{PLAN}/steps/000000")
    clock.ahead_s = -30.0
    before = fence.clock.read()
    write(journal, entry(epoch, StepState.SETTLED))
    with pytest.raises(RunStoppedError, match=r"clock is (29|30)\.\d s off ZooKeeper's"):
        fence.measure_clock(before, f"{home}/plans/{PLAN}/steps/000000")


def test_overtaken_writer_is_refused_although_the_root_was_made_again(
    session: ZooKeeperSession, zookeeper: EmbeddedZooKeeper, home: str, client: KazooClient
) -> None:
    """Both writers are at epoch 1, and a node `writer` exists: only the holder's own node tells them apart."""
    old = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), old)
    epoch = old.acquire(PLAN)
    client.delete(home, recursive=True)
    with ZooKeeperSession(zookeeper.connect_string, 10.0, 10.0) as other:
        new = Fence(other, EvenkeelPaths(home), SETTINGS)
        assert new.acquire(PLAN) == epoch == 1
        Journal(other, EvenkeelPaths(home), new).open(PLAN)
        client.create(f"{home}/bundle", b"before")
        with pytest.raises(FencedOutError, match="another writer has taken over"):
            write(journal, entry(epoch), [set_data("bundle", f"{home}/bundle", b"after", 0)])
        with pytest.raises(FencedOutError, match="another writer has taken over"):
            old.require_held()
        old.release()
        new.require_held()
    assert client.get(f"{home}/bundle")[0] == b"before"


def test_released_fence_leaves_no_node_of_its_holder(session: ZooKeeperSession, home: str, client: KazooClient) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    fence.acquire(PLAN)
    assert len([name for name in client.get_children(home) if name.startswith("holder-")]) == 1
    fence.release()
    assert sorted(client.get_children(home)) == ["bundle", "fence"]


def test_transaction_that_kazoo_would_fail_silently_raises(session: ZooKeeperSession, home: str) -> None:
    with pytest.raises(TransactionRefusedError) as refusal:
        session.commit([check("wrong", f"{home}/bundle", 99), create("new", f"{home}/new", b"")])
    assert refusal.value.operation == "wrong"


def test_lost_session_refuses_everything_for_good(zookeeper: EmbeddedZooKeeper, home: str) -> None:
    session = ZooKeeperSession(zookeeper.connect_string, 10.0, 10.0)
    with session:
        session.get([f"{home}/bundle"])
        session._on_state("LOST")
        with pytest.raises(RunStoppedError, match="has expired: check that ZooKeeper is healthy"):
            session.get([f"{home}/bundle"])


def test_unreachable_zookeeper_is_one_sentence() -> None:
    with (
        pytest.raises(UnavailableError, match="ZooKeeper at 127.0.0.1:1 did not answer within 1 s: check the address"),
        ZooKeeperSession("127.0.0.1:1", 2.0, 1.0),
    ):
        pass


def test_journal_of_another_version_is_refused(session: ZooKeeperSession, home: str) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    write(journal, dataclasses.replace(entry(epoch), schema_version=99))
    with pytest.raises(Exception, match="has schema version 99, this version of Evenkeel reads 1"):
        journal.entries(PLAN)
