"""The states of KIP-343, cell by cell, and which incarnation is believed."""

from __future__ import annotations

import re

import pytest

from evenkeel.model import broker_states
from evenkeel.model.broker_states import (
    NEXT_STATE,
    BrokerEvent,
    BrokerSighting,
    HeartbeatTimeouts,
    admit_incarnations,
    judge,
)
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import BrokerState

TIMEOUTS = HeartbeatTimeouts(decider_s=60, broker_s=120)
FRESH_S, LATE_S = 59.0, 61.0

CELLS = """
Initial  registered anew          -> Initial
Initial  reported, wants Active   -> Active
Initial  reported, wants Stopping -> Stopping
Initial  marked to stop           -> Stopping
Initial  unmarked                 -> Initial
Initial  overdue                  -> Inactive
Initial  unregistered             -> Inactive
Active   registered anew          -> Initial
Active   reported, wants Active   -> Active
Active   reported, wants Stopping -> Stopping
Active   marked to stop           -> Stopping
Active   unmarked                 -> Active
Active   overdue                  -> Inactive
Active   unregistered             -> Inactive
Inactive registered anew          -> Initial
Inactive reported, wants Active   -> Active
Inactive reported, wants Stopping -> Stopping
Inactive marked to stop           -> Stopping
Inactive unmarked                 -> Inactive
Inactive overdue                  -> Inactive
Inactive unregistered             -> Inactive
Stopping registered anew          -> Initial
Stopping reported, wants Active   -> Active
Stopping reported, wants Stopping -> Stopping
Stopping marked to stop           -> Stopping
Stopping unmarked                 -> Initial
Stopping overdue                  -> Inactive
Stopping unregistered             -> Inactive
""".strip().splitlines()


@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_of_the_table(cell: str) -> None:
    current, event, target = re.fullmatch(r"(\w+)\s+(.+?)\s+-> (\w+)", cell).groups()  # type: ignore[union-attr]
    assert NEXT_STATE[BrokerState(current), BrokerEvent(event)] is BrokerState(target)


def test_table_has_no_other_cells() -> None:
    assert len(CELLS) == len(NEXT_STATE) == len(BrokerState) * len(BrokerEvent)


def test_docstring_draws_the_table_that_holds() -> None:
    drawn = dict(re.findall(r"^ +(\w+) +│ (.+)$", broker_states.__doc__ or "", re.MULTILINE))
    for current in BrokerState:
        assert drawn[current].split() == [NEXT_STATE[current, event] for event in BrokerEvent]


@pytest.mark.parametrize(
    ("is_registered", "report_age_s", "is_marked", "state"),
    [
        (True, None, False, BrokerState.INITIAL),
        (True, FRESH_S, False, BrokerState.ACTIVE),
        (True, LATE_S, False, BrokerState.INACTIVE),
        (True, -FRESH_S, False, BrokerState.ACTIVE),
        (True, -LATE_S, False, BrokerState.INACTIVE),
        (True, None, True, BrokerState.STOPPING),
        (True, FRESH_S, True, BrokerState.STOPPING),
        (True, LATE_S, True, BrokerState.STOPPING),
        (False, None, False, BrokerState.INACTIVE),
        (False, FRESH_S, True, BrokerState.INACTIVE),
    ],
)
def test_what_is_seen_at_one_moment_is_judged_by_the_table(
    is_registered: bool, report_age_s: float | None, is_marked: bool, state: BrokerState
) -> None:
    assert judge(BrokerSighting(is_registered, report_age_s, is_marked), TIMEOUTS) is state


def test_broker_is_declared_inactive_before_it_fences_itself() -> None:
    assert [(TIMEOUTS.is_overdue(age), TIMEOUTS.is_fenced(age)) for age in (60, 61, 120, 121)] == [
        (False, False),
        (True, False),
        (True, False),
        (True, True),
    ]


@pytest.mark.parametrize(("decider_s", "broker_s"), [(60, 60), (61, 60)])
def test_deciders_time_out_that_is_not_the_shorter_is_refused_by_name(decider_s: float, broker_s: float) -> None:
    with pytest.raises(
        InputError, match=f"report_decider_timeout_s = {decider_s} is not below report_broker_timeout_s = 60"
    ):
        HeartbeatTimeouts(decider_s, broker_s)


def test_time_outs_in_the_wrong_order_are_refused_by_the_settings_own_names() -> None:
    with pytest.raises(InputError, match="broker_load_data_ttl_in_seconds = 3600 is not below report_broker_timeout_s"):
        Settings(broker_load_data_ttl_in_seconds=3_600.0)
    assert Settings(broker_load_data_ttl_in_seconds=3_600.0, report_broker_timeout_s=3_601.0)


def test_newer_incarnation_takes_the_place_of_the_old_and_absent_brokers_are_remembered() -> None:
    assert admit_incarnations({"b1": 5, "b2": 9}, [("b1", 6)]) == {"b1": 6, "b2": 9}


def test_incarnation_older_than_one_seen_is_never_accepted() -> None:
    with pytest.raises(RefusedError, match="broker b1 is registered as incarnation 4, but 5 was seen before"):
        admit_incarnations({"b1": 5}, [("b1", 4)])


def test_two_brokers_under_one_id_are_refused() -> None:
    with pytest.raises(RefusedError, match="two brokers are registered or own bundles under the id b1"):
        admit_incarnations({}, [("b1", 5), ("b1", 6)])
