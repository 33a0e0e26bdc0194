"""What opens a window and what keeps it closed, as the configuration file says it.

    [[clusters.prod.windows]]
    name = "weekend nights"
    days = ["sat", "sun"]               # or rrule = "FREQ=MONTHLY;BYDAY=1SU"
    start = "02:00"
    duration = "3h"
    time_zone = "Europe/Berlin"
    lead = "2h"                         # the run begins so long before: plan, gate and approval happen ahead
    cutoff = "15m"                      # no step begins in the last 15 minutes

    [clusters.prod.blackouts]
    dates = ["2026-12-20/2027-01-06"]   # whole days, the last one included, in the time zone of each window
    calendars = ["freeze.ics"]
    min_distance = "20h"                # between the end of a window and the start of the next

A cluster without windows is closed. Times of day are local; a duration is elapsed time, whatever clocks do meanwhile.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from typing import Any, Self
from zoneinfo import ZoneInfo

from evenkeel.model.errors import InputError
from evenkeel.model.names import suggest
from evenkeel.model.outside_json import show
from evenkeel.model.timestamps import format_time, parse_time

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
RULE_KEYS = ("name", "days", "rrule", "start", "duration", "time_zone", "lead", "cutoff")
BLACKOUT_KEYS = ("dates", "calendars", "min_distance")
LONGEST_WINDOW = timedelta(days=7)
LONGEST_LEAD = timedelta(days=2)
MOST_RULES = 100
MOST_BLACKOUTS = 10_000
_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_SPAN = re.compile(r"(\d{1,4})([dhms])")
_START = re.compile(r"([01]\d|2[0-3]):([0-5]\d)")
# A rule with a time of day or a beginning of its own would contradict `start`, and one that ends never opens again.
_RRULE = re.compile(
    r"FREQ=(DAILY|WEEKLY|MONTHLY|YEARLY)(;(INTERVAL|BYDAY|BYMONTHDAY|BYMONTH|BYSETPOS|BYYEARDAY|BYWEEKNO|WKST)=[\w,+-]+)*"
)


@dataclass(frozen=True, slots=True)
class WindowRule:
    """Opens windows on certain days at a local time of day, each for the same elapsed time."""

    name: str
    start: time
    duration: timedelta
    time_zone: str
    days: tuple[int, ...] = ()
    """Weekdays from 0, Monday; empty where `rrule` says on which days."""
    rrule: str | None = None
    lead: timedelta = timedelta()
    cutoff: timedelta = timedelta()

    def __post_init__(self) -> None:
        if bool(self.days) == (self.rrule is not None):
            raise InputError(f"window {self.name!r} has both days and rrule, or neither", "give one of them")
        if not timedelta() < self.duration <= LONGEST_WINDOW:
            raise InputError(f"window {self.name!r} lasts {format_span(self.duration)}", "choose up to 7 days")
        if not timedelta() <= self.cutoff < self.duration:
            raise InputError(
                f"the cutoff of window {self.name!r} leaves no time to begin a step",
                f"choose less than its duration, {format_span(self.duration)}",
            )
        if not timedelta() <= self.lead <= LONGEST_LEAD:
            raise InputError(f"window {self.name!r} leads by {format_span(self.lead)}", "choose up to 2 days")
        if self.rrule is not None and not _RRULE.fullmatch(self.rrule):
            raise InputError(
                f"the rrule of window {self.name!r} is not understood: {show(self.rrule)}",
                "write days only, such as FREQ=MONTHLY;BYDAY=1SU; start has the time of day",
            )
        require_time_zone(self.time_zone)

    @property
    def zone(self) -> ZoneInfo:
        return ZoneInfo(self.time_zone)

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            **({"days": [DAYS[day] for day in self.days]} if self.days else {"rrule": self.rrule}),
            "start": f"{self.start:%H:%M}",
            "duration": format_span(self.duration),
            "time_zone": self.time_zone,
            "lead": format_span(self.lead),
            "cutoff": format_span(self.cutoff),
        }

    @classmethod
    def from_json(cls, place: str, fields: Mapping[str, Any]) -> Self:
        """Read a rule; whatever is wrong is named with its key."""
        for key in fields:
            if key not in RULE_KEYS:
                raise InputError(f"{place}: unknown key {key}", suggest(key, RULE_KEYS))
        name = fields.get("name")
        if not isinstance(name, str) or not name or len(name) > 80 or not name.isprintable():
            raise InputError(f"{place}: name = {show(name)} is not a short text", 'write it as name = "weekend nights"')
        return cls(
            name,
            _read(place, fields, "start", _read_start, '"02:00"'),
            _read(place, fields, "duration", read_span, '"3h"'),
            _read(place, fields, "time_zone", _read_text, '"Europe/Berlin"'),
            _read(place, fields, "days", _read_days, '["sat", "sun"]') if "days" in fields else (),
            _read(place, fields, "rrule", _read_text, '"FREQ=MONTHLY;BYDAY=1SU"') if "rrule" in fields else None,
            _read(place, fields, "lead", read_span, '"2h"') if "lead" in fields else timedelta(),
            _read(place, fields, "cutoff", read_span, '"15m"') if "cutoff" in fields else timedelta(),
        )


@dataclass(frozen=True, slots=True)
class BlackoutDays:
    """Whole days on which no window is open, the last one included, in the time zone of each window."""

    first: date
    last: date
    label: str = ""

    def __post_init__(self) -> None:
        if self.last < self.first:
            raise InputError(
                f"the blackout {self.first}/{self.last} ends before it begins", "write the first day first"
            )

    def describe(self) -> str:
        days = f"{self.first}" if self.first == self.last else f"{self.first} to {self.last}"
        return f"{self.label}, {days}" if self.label else days

    def to_json(self) -> dict[str, str]:
        return {"first": f"{self.first}", "last": f"{self.last}", "label": self.label}


@dataclass(frozen=True, slots=True)
class BlackoutTime:
    """A span of time in which no window is open."""

    start: datetime
    end: datetime
    label: str = ""

    def describe(self) -> str:
        is_one_day = self.start.date() == self.end.date()
        span = f"{self.start:%Y-%m-%d %H:%M} to {self.end:{'%H:%M' if is_one_day else '%Y-%m-%d %H:%M'}} UTC"
        return f"{self.label}, {span}" if self.label else span

    def to_json(self) -> dict[str, str]:
        return {"start": format_time(self.start), "end": format_time(self.end), "label": self.label}


Blackout = BlackoutDays | BlackoutTime


def read_rules(place: str, value: Any) -> tuple[WindowRule, ...]:
    """The windows of a cluster; two of one name are refused, since reports and messages name windows."""
    if not isinstance(value, list) or not all(isinstance(each, Mapping) for each in value):
        raise InputError(f"{place} is not a list of tables", f"begin each window with [[{place}]]")
    if len(value) > MOST_RULES:
        raise InputError(f"{place} has {len(value)} windows", f"choose up to {MOST_RULES}")
    rules = tuple(WindowRule.from_json(f"{place}[{number}]", each) for number, each in enumerate(value))
    names = [rule.name for rule in rules]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{place} has two windows of the name {twice!r}", "give each its own name")
    return rules


def read_dates(place: str, value: Any) -> tuple[BlackoutDays, ...]:
    """Days and ranges of days, `2026-12-24` or `2026-12-20/2027-01-06`."""
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f"{place} = {show(value)} is not a list of texts", 'write it as ["2026-12-20/2027-01-06"]')
    return tuple(_read_dates(place, each) for each in value)


def read_blackout(fields: Mapping[str, str]) -> Blackout:
    """A blackout from its JSON form."""
    if "first" in fields:
        return BlackoutDays(
            date.fromisoformat(fields["first"]), date.fromisoformat(fields["last"]), fields.get("label", "")
        )
    return BlackoutTime(parse_time(fields["start"]), parse_time(fields["end"]), fields.get("label", ""))


def read_span(value: Any) -> timedelta:
    """A span such as `90m`, `3h` or `1d12h`; raises ValueError."""
    if not isinstance(value, str) or not value or _SPAN.sub("", value):
        raise ValueError(value)
    return timedelta(**{_UNITS[unit]: int(count) for count, unit in _SPAN.findall(value)})


def format_span(span: timedelta) -> str:
    """A span as it is written in the configuration: `1d12h`, `90m` as `1h30m`."""
    left, parts = int(span.total_seconds()), []
    for unit, seconds in (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)):
        count, left = divmod(left, seconds)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"


def require_time_zone(name: str) -> None:
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError) as error:
        raise InputError(f"{show(name)} is not a time zone", 'write it as in "Europe/Berlin" or "UTC"') from error


def _read(place: str, fields: Mapping[str, Any], key: str, read: Callable[[Any], Any], example: str) -> Any:
    try:
        return read(fields.get(key))
    except ValueError:
        shown = show(fields.get(key)) if key in fields else "missing"
        raise InputError(f"{place}: {key} = {shown} is not understood", f"write it as {key} = {example}") from None


def _read_text(value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise ValueError(value)
    return value


def _read_start(value: Any) -> time:
    found = _START.fullmatch(value) if isinstance(value, str) else None
    if found is None:
        raise ValueError(value)
    return time(int(found[1]), int(found[2]))


def _read_days(value: Any) -> tuple[int, ...]:
    if not isinstance(value, Sequence) or isinstance(value, str) or not value:
        raise ValueError(value)
    # An unknown day raises ValueError too.
    return tuple(sorted({DAYS.index(str(day).lower()) for day in value}))


def _read_dates(place: str, text: str) -> BlackoutDays:
    first, _, last = text.partition("/")
    try:
        return BlackoutDays(date.fromisoformat(first), date.fromisoformat(last or first))
    except ValueError:
        raise InputError(
            f"{place}: {show(text)} is not a day or a range of days",
            'write it as "2026-12-24" or "2026-12-20/2027-01-06"',
        ) from None
