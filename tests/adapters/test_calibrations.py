"""Cpu calibrations: written once, found by the moment of a snapshot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evenkeel.adapters.lake.learnt import CalibrationStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.load import CpuCalibration

NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


@pytest.fixture
def store(tmp_path: Path) -> CalibrationStore:
    return CalibrationStore(Lake(str(tmp_path)))


def weight(key: str, weight_millis: int = 1500) -> CpuCalibration:
    return CpuCalibration(key, weight_millis, 3, NOON)


def test_snapshot_is_planned_by_the_newest_calibration_that_was_known_then(store: CalibrationStore) -> None:
    assert store.find("lab", NOON) is None
    first = store.write("lab", NOON, [weight("t/n")])
    second = store.write("lab", NOON + timedelta(hours=1), [weight("t/n", 900)])
    found = [store.find("lab", NOON + timedelta(minutes=minutes)) for minutes in (-1, 0, 59, 60, 600)]
    assert found == [None, first, first, second, second]
    assert store.find("another", NOON) is None


def test_calibration_is_read_back_and_a_changed_file_is_refused(store: CalibrationStore, tmp_path: Path) -> None:
    rows = [weight("t/n"), weight("t/n/0x00000000_0x80000000", 700)]
    new_id = store.write("lab", NOON, list(reversed(rows)))
    assert store.load("lab", new_id) == rows
    assert store.write("lab", NOON, rows) == new_id
    (tmp_path / store.path_of("lab", new_id)).write_bytes(b"something else")
    with pytest.raises(InputError, match="does not match its id"):
        store.load("lab", new_id)


def test_two_weights_for_one_key_are_refused(store: CalibrationStore) -> None:
    with pytest.raises(InputError, match="2 rows of cpu_calibration are for t/n"):
        store.write("lab", NOON, [weight("t/n"), weight("t/m"), weight("t/n", 2)])


@pytest.mark.parametrize("weight_millis", [0, -5, 1_000_001])
def test_weight_that_no_message_can_have_is_refused(weight_millis: int) -> None:
    with pytest.raises(InputError, match="cpu weight"):
        weight("t/n", weight_millis)
