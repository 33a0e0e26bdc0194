"""The state machine agrees with the outcomes of Pulsar's real classes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState
from evenkeel.pulsar.state_machine import (
    LAST_VERSION_ID,
    LOWEST_VERSION_ID,
    StateStore,
    find_conflict,
    is_accepted,
    is_active,
    is_valid_transition,
    next_version_id,
)

CASES = json.loads((Path(__file__).parents[1] / "data" / "pulsar-cases.json").read_text())["cases"]
RESOLVER_ROWS = [
    pytest.param(row, id=f"{case['id']}-{number}")
    for case in CASES
    if case["algorithm"] == "ServiceUnitStateDataConflictResolver"
    for number, row in enumerate(case["input"]["rows"])
]
STATES = list(ServiceUnitState)


@dataclass(frozen=True)
class RecordStub:
    """A record as Pulsar's own tests build them: theirs may say Init, which no stored record can."""

    state: ServiceUnitState
    version_id: int
    destination: str | None
    source: str | None
    force: bool


def read_record(fields: dict[str, Any] | None) -> RecordStub | None:
    if fields is None:
        return None
    return RecordStub(
        ServiceUnitState(fields["state"]),
        fields["versionId"],
        fields["dstBroker"],
        fields["sourceBroker"],
        fields["force"],
    )


def find_case(case_id: str) -> dict[str, Any]:
    return next(case for case in CASES if case["id"] == case_id)


def owned(version_id: int, owner: str = "b01.fleet:8080") -> ServiceUnitRecord:
    return ServiceUnitRecord(ServiceUnitState.OWNED, 1_700_000_000_000, version_id, destination=owner)


def test_the_resolver_cases_are_all_here() -> None:
    assert len(RESOLVER_ROWS) == 89


@pytest.mark.parametrize("row", RESOLVER_ROWS)
def test_resolver_decides_as_pulsar_does(row: dict[str, Any]) -> None:
    accepted = is_accepted(read_record(row["from"]), read_record(row["to"]), StateStore(row["storage"]))
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
    assert is_accepted(owned(LAST_VERSION_ID), release)


def test_force_does_not_excuse_a_wrong_version() -> None:
    override = ServiceUnitRecord(ServiceUnitState.OWNED, 1, 5, destination="b02.fleet:8080", force=True)
    assert not is_accepted(owned(3), override)
    assert is_accepted(owned(4), override)
    assert not is_accepted(None, override)


def test_a_refusal_says_why() -> None:
    release = ServiceUnitRecord(ServiceUnitState.RELEASING, 1, 2, source="b09.fleet:8080")
    assert find_conflict(owned(1), release) == "only the owner can release"
