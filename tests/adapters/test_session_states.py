"""The machine of a session, cell by cell, and the suspension that lasts too long."""

from __future__ import annotations

import threading
from itertools import product

import pytest

from evenkeel.adapters.zookeeper.session_states import TRANSITIONS, SessionEvent, SessionMachine, SessionState

TABLE = """
             connected  disconnected  expired  closed  overdue
connected    connected  suspended     lost     lost    connected
suspended    connected  suspended     lost     lost    lost
lost         lost       lost          lost     lost    lost
"""


class Hands:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


def cells() -> list[tuple[SessionState, SessionEvent, SessionState]]:
    head, *rows = [line.split() for line in TABLE.strip().splitlines()]
    return [
        (SessionState(row[0]), SessionEvent(event), SessionState(after))
        for row in rows
        for event, after in zip(head, row[1:], strict=True)
    ]


@pytest.mark.parametrize(("before", "event", "after"), cells())
def test_each_cell_of_the_table(before: SessionState, event: SessionEvent, after: SessionState) -> None:
    assert TRANSITIONS[before, event] is after


def test_the_table_is_whole() -> None:
    assert set(TRANSITIONS) == set(product(SessionState, SessionEvent))


def test_lost_session_stays_lost_although_kazoo_connects_again() -> None:
    machine = SessionMachine(1.0)
    for event in (SessionEvent.CONNECTED, SessionEvent.EXPIRED, SessionEvent.CONNECTED):
        machine.take(event)
    assert machine.state is SessionState.LOST


def test_suspension_that_outlasts_the_time_out_is_a_loss() -> None:
    hands = Hands()
    machine = SessionMachine(2.0, hands)
    machine.take(SessionEvent.CONNECTED)
    hands.now_s = 100.0
    machine.take(SessionEvent.DISCONNECTED)
    hands.now_s = 101.9
    assert machine.state is SessionState.SUSPENDED
    hands.now_s = 102.0
    assert machine.take(SessionEvent.CONNECTED) is SessionState.LOST, "the server may have given the session up"


def test_second_cut_does_not_lengthen_a_suspension() -> None:
    hands = Hands()
    machine = SessionMachine(2.0, hands)
    machine.take(SessionEvent.CONNECTED)
    machine.take(SessionEvent.DISCONNECTED)
    hands.now_s = 1.5
    machine.take(SessionEvent.DISCONNECTED)
    hands.now_s = 2.5
    assert machine.state is SessionState.LOST


def test_connection_time_counts_from_the_last_break() -> None:
    hands = Hands()
    machine = SessionMachine(9.0, hands)
    machine.take(SessionEvent.CONNECTED)
    hands.now_s = 5.0
    assert machine.connected_for_s == 5.0
    machine.take(SessionEvent.DISCONNECTED)
    assert machine.connected_for_s == 0.0
    machine.take(SessionEvent.CONNECTED)
    hands.now_s = 6.0
    assert machine.connected_for_s == 1.0


def test_waiting_ends_with_the_connection_or_with_the_loss() -> None:
    machine = SessionMachine(10.0)
    machine.take(SessionEvent.CONNECTED)
    machine.take(SessionEvent.DISCONNECTED)
    threading.Timer(0.05, machine.take, [SessionEvent.CONNECTED]).start()
    assert machine.wait_while_suspended() is SessionState.CONNECTED
    short = SessionMachine(0.1)
    short.take(SessionEvent.CONNECTED)
    short.take(SessionEvent.DISCONNECTED)
    # Nothing else happens to this session: only its own time-out can end the wait.
    assert short.wait_while_suspended() is SessionState.LOST
