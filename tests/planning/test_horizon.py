"""The hours that a plan has to hold for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

from evenkeel.planning.horizon import horizon_hours, hour_of_week

MONDAY_NOON = datetime(2026, 1, 5, 12, tzinfo=UTC)


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
