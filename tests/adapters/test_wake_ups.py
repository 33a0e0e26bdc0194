"""Requests to a ZooKeeper that is away: however many there are, sending them ends with the session."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from evenkeel.adapters.zookeeper.session import WINDOW_REQUESTS, ZooKeeperSession
from evenkeel.adapters.zookeeper.session_states import SessionState
from evenkeel.adapters.zookeeper.wake_ups import PipeEnd, open_pipe
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import SessionLostError
from support.proxies import CuttingProxy
from support.waiting import eventually, scaled

FOR_GOOD_S = 3_600.0
A_WAKE_UP = b"\0"


@pytest.fixture
def proxy(zookeeper: EmbeddedZooKeeper) -> Iterator[CuttingProxy]:
    with CuttingProxy(zookeeper.connect_string) as opened:
        yield opened


def test_hundreds_of_requests_in_a_session_that_gets_lost_end_with_it(proxy: CuttingProxy) -> None:
    """As where a writer that was stopped for long lists the nodes of a large ZooKeeper: it hung for good."""
    ends: list[str] = []

    def read_many() -> None:
        try:
            with ZooKeeperSession(proxy.connect_string, scaled(1.0), scaled(5.0)) as session:
                proxy.go_deaf(FOR_GOOD_S)
                assert eventually(lambda: session._machine.state is not SessionState.CONNECTED)
                session._machine._longest_suspension_s = scaled(5.0)
                session.stats([f"/node-{number}" for number in range(2 * WINDOW_REQUESTS)])
        except SessionLostError:
            ends.append("lost")

    reader = threading.Thread(target=read_many, daemon=True)
    reader.start()
    reader.join(scaled(60.0))
    assert ends == ["lost"], "it still sends, or closes"


@pytest.fixture
def pipe() -> Iterator[tuple[PipeEnd, PipeEnd]]:
    ends = open_pipe()
    yield ends
    for end in ends:
        end.close()


def test_pipe_has_room_for_far_more_wake_ups_than_requests_are_ever_under_way(pipe: tuple[PipeEnd, PipeEnd]) -> None:
    read_end, write_end = pipe
    sent = [write_end.send(A_WAKE_UP) for _ in range(20 * WINDOW_REQUESTS)]
    assert set(sent) == {1}
    assert read_end.recv(len(sent) + 1) == A_WAKE_UP * len(sent)


def test_closed_end_is_an_error_and_never_another_file(pipe: tuple[PipeEnd, PipeEnd]) -> None:
    _, write_end = pipe
    former = write_end.fileno()
    write_end.close()
    others = open_pipe()
    try:
        assert former in {end.fileno() for end in others}, "the system gives the number away at once"
        with pytest.raises(OSError, match="Bad file descriptor"):
            write_end.send(A_WAKE_UP)
        write_end.close()
        assert others[1].send(A_WAKE_UP) == 1
    finally:
        for end in others:
            end.close()
