"""The state machine agrees with the outcomes of Pulsar's real classes."""

from __future__ import annotations

import json
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.pulsar_rules.state_machine import (
    LAST_VERSION_ID,
    LOWEST_VERSION_ID,
    StateStore,
    find_conflict,
    is_valid_transition,
    next_version_id,
)
from support.case_ring import is_active, read_record

CASES = json.loads((Path(__file__).parents[1] / "data" / "pulsar-cases.json").read_text())["cases"]
RESOLVER_ROWS = [
    pytest.param(row, id=f"{case['id']}-{number}")
    for case in CASES
    if case["algorithm"] == "ServiceUnitStateDataConflictResolver"
    for number, row in enumerate(case["input"]["rows"])
]
STATES = list(ServiceUnitState)


def find_case(case_id: str) -> dict[str, Any]:
    return next(case for case in CASES if case["id"] == case_id)


def owned(version_id: int, owner: str = "b01.fleet:8080") -> ServiceUnitRecord:
    return ServiceUnitRecord(ServiceUnitState.OWNED, 1_700_000_000_000, version_id, destination=owner)


def test_the_resolver_cases_are_all_here() -> None:
    assert len(RESOLVER_ROWS) == 89


@pytest.mark.parametrize("row", RESOLVER_ROWS)
def test_resolver_decides_as_pulsar_does(row: dict[str, Any]) -> None:
    accepted = find_conflict(read_record(row["from"]), read_record(row["to"]), StateStore(row["storage"])) is None
    assert accepted is not row["keep_left"]


@pytest.mark.parametrize("case_id", ["state-transitions-metadata-store", "state-transitions-system-topic"])
@pytest.mark.parametrize(("before", "after"), list(product(STATES, STATES)))
def test_transition_table_is_pulsars(case_id: str, before: ServiceUnitState, after: ServiceUnitState) -> None:
    case = find_case(case_id)
    expected = after in case["expected"]["allowed"][before]
    assert is_valid_transition(before, after, StateStore(case["input"]["storage"])) is expected


@pytest.mark.parametrize("state", STATES)
def test_active_and_in_flight_states_are_pulsars(state: ServiceUnitState) -> None:
    assert is_active(state) is (state in find_case("state-active")["expected"]["true_for"])
    assert state.is_in_flight is (state in find_case("state-inflight")["expected"]["true_for"])


def test_versions_wrap_around_at_the_end() -> None:
    assert next_version_id(owned(LAST_VERSION_ID)) == LOWEST_VERSION_ID
    release = ServiceUnitRecord(ServiceUnitState.RELEASING, 1, LOWEST_VERSION_ID, source="b01.fleet:8080")
    assert find_conflict(owned(LAST_VERSION_ID), release) is None


def test_force_does_not_excuse_a_wrong_version() -> None:
    override = ServiceUnitRecord(ServiceUnitState.OWNED, 1, 5, destination="b02.fleet:8080", force=True)
    assert find_conflict(owned(3), override) is not None
    assert find_conflict(owned(4), override) is None
    assert find_conflict(None, override) is not None


def test_a_refusal_says_why() -> None:
    release = ServiceUnitRecord(ServiceUnitState.RELEASING, 1, 2, source="b09.fleet:8080")
    assert find_conflict(owned(1), release) == "only the owner can release"
