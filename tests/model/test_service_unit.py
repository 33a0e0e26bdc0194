"""The bytes under /service_unit_state."""

from __future__ import annotations

import json

import pytest

from evenkeel.model.errors import InputError
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState

TRANSFER = (
    b'{"state":"Releasing","dstBroker":"b3:8080","sourceBroker":"b1:8080",'
    b'"force":false,"timestamp":1700000000000,"versionId":4}'
)
SPLIT = (
    b'{"state":"Splitting","sourceBroker":"b1:8080","splitServiceUnitToDestBroker":'
    b'{"0x00000000_0x20000000":null,"0x20000000_0x40000000":null},"force":false,"timestamp":1700000000000,"versionId":4}'
)


@pytest.mark.parametrize("data", [TRANSFER, SPLIT])
def test_records_are_written_byte_for_byte_as_pulsar_writes_them(data: bytes) -> None:
    assert ServiceUnitRecord.decode(data, "/path").encode() == data


def test_source_serves_the_bundle_until_it_is_assigning() -> None:
    assert ServiceUnitRecord.decode(TRANSFER, "/path").owner == "b1:8080"


@pytest.mark.parametrize(
    "change",
    [
        {"state": "Melting"},
        {"state": "Init"},
        {"state": None},
        {"dstBroker": None, "sourceBroker": ""},
        {"versionId": "four"},
        {"timestamp": None},
        {"timestamp": float("inf")},
        {"timestamp": float("nan")},
        {"timestamp": 1.5},
        {"timestamp": 2**63},
        {"versionId": True},
        {"dstBroker": ["b1:8080"]},
        {"dstBroker": 8080},
        {"sourceBroker": {"b1": None}},
        {"sourceBroker": "\ud800"},
        {"splitServiceUnitToDestBroker": ["0x00000000_0x20000000"]},
        {"splitServiceUnitToDestBroker": {"0x00000000_0x20000000": 5}},
        {"splitServiceUnitToDestBroker": {"\ud800": None}},
        {"force": "no"},
    ],
)
def test_record_that_a_broker_could_not_read_is_refused_with_its_path(change: dict[str, object]) -> None:
    data = json.dumps(json.loads(TRANSFER) | change).encode()
    with pytest.raises(InputError, match="/service_unit_state/t/n/r is not a service-unit record"):
        ServiceUnitRecord.decode(data, "/service_unit_state/t/n/r")


@pytest.mark.parametrize("data", [b"", b"not json", b"[]", b"null", b"\xff", pytest.param(b"[" * 200_000, id="deep")])
def test_bytes_that_are_no_json_object_are_refused(data: bytes) -> None:
    with pytest.raises(InputError, match="is not a service-unit record"):
        ServiceUnitRecord.decode(data, "/path")


def test_figure_beyond_all_bounds_is_refused() -> None:
    data = TRANSFER.replace(b"1700000000000", b"1e999")
    with pytest.raises(InputError, match="timestamp = inf is not a whole number"):
        ServiceUnitRecord.decode(data, "/path")


def test_in_flight_states_are_the_three_of_the_state_machine() -> None:
    in_flight = {state for state in ServiceUnitState if state.is_in_flight}
    assert in_flight == {ServiceUnitState.ASSIGNING, ServiceUnitState.RELEASING, ServiceUnitState.SPLITTING}
