"""The hours of the week that a plan has to hold for: from its snapshot until it expires."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

HOURS_A_DAY = 24
HOURS_A_WEEK = 7 * HOURS_A_DAY


def hour_of_week(moment: datetime) -> int:
    """Hours since Monday 00:00 UTC."""
    in_utc = moment.astimezone(UTC)
    return in_utc.weekday() * HOURS_A_DAY + in_utc.hour


def horizon_hours(taken_at: datetime, expires_after_s: float) -> tuple[int, ...]:
    """The hours of the week that lie between a snapshot and the end of its plans, in their order in time."""
    hour = taken_at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)
    end = taken_at + timedelta(seconds=min(expires_after_s, HOURS_A_WEEK * 3600))
    hours: list[int] = []
    while hour < end and len(hours) < HOURS_A_WEEK:
        hours.append(hour_of_week(hour))
        hour += timedelta(hours=1)
    return tuple(hours)
