"""Answers that get lost on the way: what became of a write is found out in place, never guessed, never repeated."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.fencing.fence import Fence
from evenkeel.adapters.fencing.journal import FencedWrite, Journal, WriteOutcome, find_outcome
from evenkeel.adapters.zookeeper.nodes import ZNode, create, set_data
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import NotDoneError, RefusedError, SessionLostError
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.settings import Settings
from support.journals import write, write_each
from support.proxies import CuttingProxy
from support.waiting import scaled

SETTINGS = Settings(session_timeout_s=scaled(4.0))
NEVER_BACK_S = 1e6
PLAN = "e" * 64


@pytest.fixture
def home(client: KazooClient) -> Iterator[str]:
    path = f"/evenkeel-{secrets.token_hex(4)}/lab"
    client.create(f"{path}/bundle", b"before", makepath=True)
    yield path
    client.delete(path.rpartition("/")[0], recursive=True)


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[CuttingProxy]:
    with CuttingProxy(zookeeper.connect_string) as opened:
        yield opened


@pytest.fixture
def session(proxy: CuttingProxy) -> Iterator[ZooKeeperSession]:
    with ZooKeeperSession(proxy.connect_string, scaled(4.0), scaled(5.0)) as opened:
        yield opened


def entry(epoch: int, order: int = 0) -> JournalEntry:
    return JournalEntry(PLAN, order, "t/n/0x00000000_0xffffffff", "b1:8080", "b2:8080", epoch, StepState.APPLIED, 1)


def make_node(data: bytes, version: int) -> ZNode:
    return ZNode("", data, version, czxid=1, mzxid=1, mtime_ms=0, ephemeral_owner=0)


@pytest.mark.parametrize(
    ("witness", "bundle_version", "outcome"),
    [
        (b"proof", 8, WriteOutcome.DONE),
        (b"proof", 7, WriteOutcome.DONE),
        (None, 7, WriteOutcome.NOT_DONE),
        (b"other", 7, WriteOutcome.NOT_DONE),
        (None, 8, WriteOutcome.CHANGED),
        (None, None, WriteOutcome.CHANGED),
    ],
)
def test_witness_and_guarded_node_tell_what_became_of_a_write(
    witness: bytes | None, bundle_version: int | None, outcome: WriteOutcome
) -> None:
    fenced = FencedWrite((set_data("bundle", "/b", b"x", 7), create("journal", "/w", b"proof")), "/w", b"proof")
    nodes = {
        "/w": None if witness is None else make_node(witness, 0),
        "/b": None if bundle_version is None else make_node(b"", bundle_version),
    }
    assert find_outcome(fenced, nodes)[0] is outcome


def test_step_whose_answer_got_lost_is_found_done_and_not_done_twice(
    session: ZooKeeperSession, proxy: CuttingProxy, home: str, client: KazooClient
) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    proxy.lose_answer_to(b"after-the-step")
    write(journal, entry(epoch), [set_data("bundle", f"{home}/bundle", b"after-the-step", 0)])
    assert proxy.cuts == 1
    data, found = client.get(f"{home}/bundle")
    assert (data, found.version) == (b"after-the-step", 1)
    assert journal.entries(PLAN) == {0: entry(epoch)}


def test_step_that_never_arrived_is_to_be_proved_anew_on_the_same_session(
    session: ZooKeeperSession, proxy: CuttingProxy, home: str, client: KazooClient
) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    before = session.session_id
    proxy.lose_answer_to(b"after-the-step", swallow=True)
    with pytest.raises(NotDoneError, match="step 0 got lost on its way to ZooKeeper"):
        write(journal, entry(epoch), [set_data("bundle", f"{home}/bundle", b"after-the-step", 0)])
    assert proxy.cuts == 1
    assert client.get(f"{home}/bundle")[1].version == 0, "its bytes have grown old, and are not sent again"
    assert journal.entries(PLAN) == {}
    write(journal, entry(epoch), [set_data("bundle", f"{home}/bundle", b"proved anew", 0)])
    assert client.get(f"{home}/bundle")[1].version == 1
    assert session.session_id == before


def test_step_that_another_hand_forestalled_meanwhile_is_refused(
    session: ZooKeeperSession, proxy: CuttingProxy, home: str, client: KazooClient
) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    client.set(f"{home}/bundle", b"another")
    proxy.lose_answer_to(b"after-the-step", swallow=True)
    with pytest.raises(RefusedError, match="was changed by somebody else"):
        write(journal, entry(epoch), [set_data("bundle", f"{home}/bundle", b"after-the-step", 0)])
    assert client.get(f"{home}/bundle")[0] == b"another"
    assert journal.entries(PLAN) == {}


def test_steps_sent_behind_each_other_are_each_settled(
    session: ZooKeeperSession, proxy: CuttingProxy, home: str, client: KazooClient
) -> None:
    for number in range(6):
        client.create(f"{home}/b{number}", b"before")
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    client.set(f"{home}/b5", b"another")
    proxy.lose_answer_to(b"after-step-3")
    writes = [(entry(epoch, n), [set_data("bundle", f"{home}/b{n}", b"after-step-%d" % n, 0)]) for n in range(6)]
    answers = write_each(journal, writes)
    assert proxy.cuts == 1
    # What was sent behind the cut may have arrived before it, or not at all.
    lost = [number for number, answer in enumerate(answers) if isinstance(answer, NotDoneError)]
    assert set(lost) <= {4}
    for number, answer in zip(lost, write_each(journal, [writes[number] for number in lost]), strict=True):
        answers[number] = answer
    assert [answer is None for answer in answers] == [True] * 5 + [False]
    assert [client.get(f"{home}/b{n}")[1].version for n in range(6)] == [1] * 6
    assert sorted(journal.entries(PLAN)) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("swallow", [False, True])
def test_fence_whose_answer_got_lost_is_settled_by_its_token(
    session: ZooKeeperSession, proxy: CuttingProxy, home: str, client: KazooClient, swallow: bool
) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    proxy.lose_answer_to(fence.holder.encode(), swallow)
    epoch = fence.acquire(PLAN)
    data, found = client.get(f"{home}/fence")
    assert proxy.cuts == 1
    assert (data.decode(), found.version) == (fence.holder, epoch)
    assert epoch == 1, "a fence that was taken is not taken again"
    assert client.get(f"{home}/writer")[1].ephemeralOwner == session.session_id


def test_conclusions_whose_answer_got_lost_are_settled(
    session: ZooKeeperSession, proxy: CuttingProxy, home: str
) -> None:
    fence = Fence(session, EvenkeelPaths(home), SETTINGS)
    journal = Journal(session, EvenkeelPaths(home), fence)
    epoch = fence.acquire(PLAN)
    journal.open(PLAN)
    proxy.lose_answer_to(b'"order":1')
    journal.write_together([entry(epoch, 0), entry(epoch, 1)])
    assert proxy.cuts == 1
    assert sorted(journal.entries(PLAN)) == [0, 1]


def test_read_waits_out_a_suspension_on_the_same_session(
    session: ZooKeeperSession, proxy: CuttingProxy, home: str
) -> None:
    before = session.session_id
    cut_s = time.monotonic()
    proxy.go_deaf(1.0)
    (node,) = session.get([f"{home}/bundle"])
    assert node is not None
    assert session.session_id == before
    assert session.connected_for_s < time.monotonic() - cut_s, "it counts from the new connection"


def test_suspension_beyond_the_time_out_is_the_end(session: ZooKeeperSession, proxy: CuttingProxy, home: str) -> None:
    proxy.go_deaf(NEVER_BACK_S)
    with pytest.raises(SessionLostError, match="has expired: check that ZooKeeper is healthy"):
        session.get([f"{home}/bundle"])
    with pytest.raises(SessionLostError):
        session.await_connection()
