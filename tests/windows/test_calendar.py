"""Windows over all time zones and ten years: none lost, none doubled, none open where something stands against it."""

from __future__ import annotations

import random
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise, takewhile
from pathlib import Path
from zoneinfo import ZoneInfo, available_timezones

import pytest

from evenkeel.model.errors import InputError
from evenkeel.windows.calendar import Window, WindowCalendar, resolve
from evenkeel.windows.freeze_calendar import read_freezes
from evenkeel.windows.rules import DAYS, Blackout, BlackoutDays, BlackoutTime, WindowRule, format_span, read_span

BEGIN, END = datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
# Clocks go forward at midnight, by half an hour, twice a year in Ramadan, or not at all.
ODD_ZONES = ("Africa/Casablanca", "America/Santiago", "Asia/Kolkata", "Australia/Lord_Howe", "Europe/Berlin", "UTC")


def rule(name: str = "nights", start: str = "02:30", duration: str = "3h", **changes: object) -> WindowRule:
    fields = {"name": name, "start": start, "duration": duration, "time_zone": "Europe/Berlin"} | changes
    if "rrule" not in fields:
        fields.setdefault("days", ["sun"])
    return WindowRule.from_json("windows[0]", fields)


def local(year: int, month: int, day: int, hour: int, minute: int) -> datetime:
    """A local time; which time zone is meant is said elsewhere."""
    return datetime.combine(date(year, month, day), time(hour, minute))


def windows_of(calendar: WindowCalendar, begin: datetime = BEGIN, end: datetime = END) -> list[Window]:
    return list(takewhile(lambda window: window.start < end, calendar.judged(begin, years=12)))


def assert_is_first_valid_minute(window: Window, wanted: datetime) -> None:
    """The window starts at its local time, or, where clocks skip that, with the first minute that there is."""
    zone = ZoneInfo(window.time_zone)
    shown = window.start.astimezone(zone)
    assert shown.replace(tzinfo=None) >= wanted, window
    assert shown.fold == 0, f"{window} is the second of two"
    if shown.replace(tzinfo=None) != wanted:
        before = (window.start - MINUTE).astimezone(zone).replace(tzinfo=None)
        assert before < wanted, f"{window} could start earlier"


@pytest.mark.parametrize("letter", sorted({zone[0] for zone in available_timezones()}))
def test_no_window_of_any_time_zone_is_lost_or_doubled_in_ten_years(letter: str) -> None:
    sundays = [date(2026, 1, 4) + timedelta(weeks=week) for week in range(530)]
    for zone in sorted(zone for zone in available_timezones() if zone[0] == letter):
        wanted = [(day, resolve(datetime.combine(day, time(2, 30)), ZoneInfo(zone))) for day in sundays]
        found = windows_of(WindowCalendar((rule(time_zone=zone),)))
        assert [window.start for window in found] == [moment for _, moment in wanted if moment < END], zone
        for window, day in zip(found, sundays, strict=False):
            assert window.is_open
            assert window.end - window.start == timedelta(hours=3), "a duration is elapsed time"
            assert_is_first_valid_minute(window, datetime.combine(day, time(2, 30)))


@pytest.mark.parametrize("zone", ODD_ZONES)
@pytest.mark.parametrize("start", ["00:00", "00:30", "02:00", "02:30"])
def test_daily_windows_open_once_a_day(zone: str, start: str) -> None:
    found = windows_of(WindowCalendar((rule(start=start, days=list(DAYS), time_zone=zone),)))
    assert len(found) == pytest.approx((END - BEGIN).days, abs=1)
    for former, later in pairwise(found):
        assert timedelta(hours=22) < later.start - former.start < timedelta(hours=26)
        assert former.end <= later.start


def test_spring_gap_and_autumn_fold() -> None:
    berlin = ZoneInfo("Europe/Berlin")
    assert resolve(local(2026, 3, 29, 2, 30), berlin) == datetime(2026, 3, 29, 1, 0, tzinfo=UTC)
    assert resolve(local(2026, 10, 25, 2, 30), berlin) == datetime(2026, 10, 25, 0, 30, tzinfo=UTC)
    # Samoa skipped a whole day.
    assert resolve(local(2011, 12, 30, 12, 0), ZoneInfo("Pacific/Apia")) == datetime(2011, 12, 30, 10, tzinfo=UTC)


@pytest.mark.parametrize("seed", range(8))
def test_no_open_window_touches_a_blackout_or_another_window(seed: int) -> None:
    chance = random.Random(seed)
    zones = sorted(available_timezones())
    rules = tuple(
        rule(
            f"rule {number}",
            f"{chance.randrange(24):02}:{chance.randrange(60):02}",
            f"{chance.randrange(1, 20)}h",
            days=chance.sample(DAYS, chance.randrange(1, 4)),
            time_zone=chance.choice(zones),
        )
        for number in range(4)
    )
    blackouts: list[Blackout] = []
    for _ in range(30):
        day = date(2026, 1, 1) + timedelta(days=chance.randrange(3_600))
        if chance.random() < 0.5:
            blackouts.append(BlackoutDays(day, day + timedelta(days=chance.randrange(9))))
        else:
            begin = datetime.combine(day, time(chance.randrange(24)), UTC)
            blackouts.append(BlackoutTime(begin, begin + timedelta(hours=chance.randrange(1, 90))))
    distance = timedelta(hours=chance.choice([0, 5, 30]))
    judged = windows_of(WindowCalendar(rules, tuple(blackouts), distance))
    opened = [window for window in judged if window.is_open]
    assert len(opened) > 100, f"seed {seed}"
    for former, later in pairwise(opened):
        assert later.start - former.end >= distance
        assert later.start >= former.end
    for window in opened:
        assert not any(touches(window, blackout) for blackout in blackouts), f"seed {seed}: {window}"
    for window in (window for window in judged if not window.is_open):
        beside = [
            other for other in opened if other.start - distance < window.end and other.end + distance > window.start
        ]
        assert beside or any(touches(window, blackout) for blackout in blackouts), f"seed {seed}: {window}"


def touches(window: Window, blackout: Blackout) -> bool:
    """The same by another way: minute by minute would be too slow, so by local days."""
    if isinstance(blackout, BlackoutTime):
        return window.start < blackout.end and blackout.start < window.end
    zone = ZoneInfo(window.time_zone)
    first, last = window.start.astimezone(zone).date(), (window.end - timedelta(microseconds=1)).astimezone(zone).date()
    return first <= blackout.last and blackout.first <= last


@pytest.mark.parametrize(
    ("text", "days"),
    [
        ("FREQ=MONTHLY;BYDAY=1SU", ["2026-01-04", "2026-02-01", "2026-03-01"]),
        ("FREQ=WEEKLY;INTERVAL=2;BYDAY=MO", ["2026-01-12", "2026-01-26", "2026-02-09"]),
        ("FREQ=MONTHLY;BYMONTHDAY=-1", ["2026-01-31", "2026-02-28", "2026-03-31"]),
        ("FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29", ["2028-02-29", "2032-02-29"]),
    ],
)
def test_rrule_says_on_which_days(text: str, days: list[str]) -> None:
    found = windows_of(WindowCalendar((rule(rrule=text, start="12:00", time_zone="UTC"),)))
    assert [f"{window.start:%Y-%m-%d}" for window in found[: len(days)]] == days


def test_reasons_name_what_stands_against_a_window() -> None:
    calendar = WindowCalendar(
        (rule("early", "02:00", "3h", days=["sat"]), rule("late", "04:00", "3h", days=["sat", "mon"])),
        (BlackoutDays(date(2026, 1, 10), date(2026, 1, 11), "stocktaking"),),
    )
    found = {(window.name, window.start.day): window.closed_because for window in windows_of(calendar)[:8]}
    assert found["early", 3] == ""
    assert found["late", 3] == "overlaps window 'early', which opens before it"
    assert found["late", 5] == ""
    assert found["early", 10] == "falls into a blackout (stocktaking, 2026-01-10 to 2026-01-11)"
    close = windows_of(WindowCalendar((rule(days=["sat", "sun"]),), min_distance=timedelta(hours=24)))
    assert close[1].closed_because == "begins less than 1d after window 'nights' has ended"
    assert [window.is_open for window in close[:4]] == [True, False, True, False]


def test_what_is_open_now_and_next() -> None:
    calendar = WindowCalendar((rule(lead="2h", cutoff="15m"),))
    moment = datetime(2026, 1, 4, 2, 0, tzinfo=UTC)
    window = calendar.open_at(moment)
    assert window is not None
    assert (window.run_after, window.last_step_before) == (
        datetime(2026, 1, 3, 23, 30, tzinfo=UTC),
        datetime(2026, 1, 4, 4, 15, tzinfo=UTC),
    )
    assert calendar.open_at(window.end) is None
    assert next(calendar.upcoming(window.end)).start == window.start + timedelta(days=7)
    assert list(WindowCalendar().upcoming(moment)) == []


@pytest.mark.parametrize(
    ("rules", "sentence"),
    [
        ([rule(rrule="FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=30")], "window 'nights' never opens"),
        ([rule(days=list(DAYS), duration="25h")], "lasts 1d1h and opens again before that is over"),
        (
            [rule("a", duration="4h"), rule("b", "04:00")],
            "window 'b' never opens, because it always overlaps window 'a'",
        ),
    ],
)
def test_rules_that_cannot_be_kept_are_refused(rules: list[WindowRule], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        WindowCalendar(tuple(rules)).require_sound()


def test_calendar_survives_its_json_form() -> None:
    calendar = WindowCalendar(
        (rule(lead="2h", cutoff="15m"), rule("b", "12:00", rrule="FREQ=MONTHLY;BYDAY=1SU")),
        (BlackoutDays(date(2026, 12, 20), date(2027, 1, 6), "x"), BlackoutTime(BEGIN, END, "y")),
        timedelta(hours=20),
    )
    assert WindowCalendar.from_json(calendar.to_json()) == calendar


@pytest.mark.parametrize(("text", "span"), [("90m", "1h30m"), ("1d12h", "1d12h"), ("0s", "0s"), ("3h", "3h")])
def test_spans_are_read_and_written(text: str, span: str) -> None:
    assert format_span(read_span(text)) == span


@pytest.mark.parametrize("text", ["", "3", "h", "3 h", "3h!", "-3h", "1e3h", None, 3])
def test_other_spans_are_refused(text: object) -> None:
    with pytest.raises(ValueError):
        read_span(text)


def ics(*lines: str) -> str:
    event = "\r\n".join(["BEGIN:VEVENT", "UID:1", "DTSTAMP:20260101T000000Z", *lines, "END:VEVENT"])
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//t//t\r\n{event}\r\nEND:VCALENDAR\r\n"


@pytest.mark.parametrize(
    ("lines", "blackout"),
    [
        (
            ["DTSTART;VALUE=DATE:20261205", "DTEND;VALUE=DATE:20261207", "SUMMARY:Freeze"],
            BlackoutDays(date(2026, 12, 5), date(2026, 12, 6), "Freeze"),
        ),
        (
            ["DTSTART:20261205T060000Z", "DTEND:20261205T090000Z"],
            BlackoutTime(datetime(2026, 12, 5, 6, tzinfo=UTC), datetime(2026, 12, 5, 9, tzinfo=UTC)),
        ),
        (["DTSTART:20261205T220000", "DTEND:20261206T000000"], BlackoutDays(date(2026, 12, 5), date(2026, 12, 5))),
    ],
)
def test_events_of_a_freeze_calendar_are_blackouts(lines: list[str], blackout: Blackout, tmp_path: Path) -> None:
    file = tmp_path / "freeze.ics"
    file.write_text(ics(*lines))
    assert read_freezes(file, date(2026, 6, 1)) == (blackout,)


def test_events_recur_until_the_end_of_the_year_after_next(tmp_path: Path) -> None:
    file = tmp_path / "freeze.ics"
    file.write_text(ics("DTSTART:20240101T000000Z", "DTEND:20240101T060000Z", "RRULE:FREQ=MONTHLY"))
    found = read_freezes(file, date(2026, 6, 1))
    assert len(found) == 36
    assert read_freezes(file, date(2026, 1, 1)) == found


def test_cancelled_events_close_nothing(tmp_path: Path) -> None:
    file = tmp_path / "freeze.ics"
    file.write_text(ics("DTSTART;VALUE=DATE:20261205", "STATUS:CANCELLED"))
    assert read_freezes(file, date(2026, 6, 1)) == ()


@pytest.mark.parametrize(
    "content", [b"", b"hello", b"\xff\xfe\x00", b"BEGIN:VEVENT\r\nEND:VEVENT\r\n", b"BEGIN:VCALENDAR"]
)
def test_file_that_is_no_calendar_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "freeze.ics"
    file.write_bytes(content)
    with pytest.raises(InputError, match="is not a calendar"):
        read_freezes(file, date(2026, 6, 1))


def test_missing_calendar_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read the calendar"):
        read_freezes(tmp_path / "none.ics", date(2026, 6, 1))
