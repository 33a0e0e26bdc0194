"""Blackouts from an ICS file, such as a company's calendar of change freezes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

from evenkeel.model.errors import InputError
from evenkeel.windows.rules import MOST_BLACKOUTS, Blackout, BlackoutDays, BlackoutTime

YEARS_READ = 3
LARGEST_FILE_BYTES = 5_000_000
LONGEST_LABEL = 80


def read_freezes(file: Path, today: date) -> tuple[Blackout, ...]:
    """The events of this year and the two after it, in order; a file that is no calendar is refused.

    Whole years, so that the same file gives the same windows on every day of a year.
    """
    import recurring_ical_events
    from icalendar import Calendar

    try:
        if file.stat().st_size > LARGEST_FILE_BYTES:
            raise InputError(f"the calendar {file} is larger than {LARGEST_FILE_BYTES:,} bytes", "shorten it")
        content = file.read_bytes()
    except OSError as error:
        raise InputError(f"cannot read the calendar {file} ({error.strerror})", "check blackouts.calendars") from error
    first, last = date(today.year, 1, 1), date(today.year + YEARS_READ, 1, 1)
    try:
        calendar = Calendar.from_ical(content)
        if calendar.name != "VCALENDAR":
            raise ValueError("no VCALENDAR in it")
        events = recurring_ical_events.of(calendar, skip_bad_series=False).between(first, last)
        found = sorted({blackout for event in events for blackout in _blackouts_of(event)}, key=_order)
    except InputError:
        raise
    # Whatever a parser of foreign text may raise: the file is not a calendar that can be relied on.
    except Exception as error:
        raise InputError(f"{file} is not a calendar ({error})", "export it again as an ICS file") from error
    if len(found) > MOST_BLACKOUTS:
        raise InputError(f"the calendar {file} has {len(found)} events", f"keep up to {MOST_BLACKOUTS:,}")
    return tuple(found)


def _blackouts_of(event: Any) -> Iterator[Blackout]:
    """One event; cancelled ones close nothing, and one without a time zone closes the days that it touches."""
    if str(event.get("STATUS", "")).upper() == "CANCELLED":
        return
    label = str(event.get("SUMMARY", "")).strip()
    label = "".join(character for character in label if character.isprintable())[:LONGEST_LABEL]
    start, end = event.start, event.end
    if isinstance(start, datetime) and start.tzinfo is not None:
        yield BlackoutTime(start.astimezone(UTC), end.astimezone(UTC), label)
    elif isinstance(start, datetime):
        yield BlackoutDays(start.date(), max(start, end - timedelta(microseconds=1)).date(), label)
    else:
        # The end of an event of whole days is the day after its last one.
        yield BlackoutDays(start, max(start, end - timedelta(days=1)), label)


def _order(blackout: Blackout) -> tuple[str, ...]:
    return tuple(blackout.to_json().values())
