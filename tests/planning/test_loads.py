"""The load that plans go by: shares of cpu, and the hours that a plan has to hold for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import numpy as np

from evenkeel.planning.problem.loads import horizon_hours, hour_of_week, share_cpu

MONDAY_NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


def test_cpu_is_shared_by_message_rate() -> None:
    shares = share_cpu([1000, 3000, 500, 0], [0, 0, 1, 1], [40.0, 10.0])
    assert shares.tolist() == [10_000, 30_000, 10_000, 0]
    assert shares.dtype == np.int64


def test_cpu_without_messages_or_owner_or_report_is_not_shared() -> None:
    assert share_cpu([0, 5, 7], [0, -1, 1], [40.0, None]).tolist() == [0, 0, 0]


def test_large_rates_do_not_overflow() -> None:
    rate = 10_000_000_000
    assert share_cpu([rate, rate], [0, 0], [12_800.0]).tolist() == [6_400_000, 6_400_000]


def test_hours_are_counted_from_monday_midnight_utc() -> None:
    assert hour_of_week(MONDAY_NOON) == 12
    assert hour_of_week(MONDAY_NOON.astimezone(timezone(timedelta(hours=9)))) == 12


def test_horizon_begins_in_the_hour_of_the_snapshot_and_ends_before_the_plan_expires() -> None:
    assert horizon_hours(MONDAY_NOON, 4 * 3600) == (12, 13, 14, 15)
    assert horizon_hours(MONDAY_NOON + timedelta(minutes=1), 4 * 3600) == (12, 13, 14, 15, 16)
    assert horizon_hours(MONDAY_NOON, 1) == (12,)


def test_horizon_runs_from_sunday_night_into_monday() -> None:
    assert horizon_hours(MONDAY_NOON - timedelta(hours=13), 7200) == (167, 0)


def test_no_hour_is_counted_twice_however_long_a_plan_lives() -> None:
    hours = horizon_hours(MONDAY_NOON + timedelta(minutes=30), 30 * 24 * 3600)
    assert sorted(hours) == list(range(168))
