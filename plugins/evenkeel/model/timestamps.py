"""Times are UTC, written in one form, and read only with a time zone."""

from __future__ import annotations

from datetime import UTC, datetime

from evenkeel.model.errors import InputError


def format_time(moment: datetime) -> str:
    """A time in UTC: ISO 8601 with milliseconds and Z."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_time(text: str) -> datetime:
    """Read an ISO 8601 time; one without a time zone is refused."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise InputError(f"{text!r} is not a time", "write it as 2026-01-31T03:00:00Z") from error
    if moment.tzinfo is None:
        raise InputError(f"{text!r} has no time zone", "write it as 2026-01-31T03:00:00Z")
    return moment.astimezone(UTC)
