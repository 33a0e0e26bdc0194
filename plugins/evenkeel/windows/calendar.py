"""Which windows open when: rules are expanded on local days, and whatever stands against a window closes it.

    rules ──▶ candidates, in order of their start ──▶ in a blackout?                        closed
                                                      overlaps a window that is open?       closed
                                                      too soon after the end of one?        closed
                                                      else                                  open

Days are expanded without a time zone, and each local time is resolved on its own: a time that does not exist, because
clocks go forward, becomes the first minute that does; of a time that occurs twice the first counts. Whether a window is
open may depend on the one before, so the chain starts at a fixed day, and years are remembered.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from itertools import pairwise
from typing import Any, Self
from zoneinfo import ZoneInfo

from evenkeel.model.errors import InputError
from evenkeel.model.timestamps import format_time
from evenkeel.windows.rules import Blackout, BlackoutDays, WindowRule, format_span, read_blackout, read_span

FIRST_YEAR = 2026
# A Monday, from which `INTERVAL` of a weekly rule counts.
FIRST_DAY = date(2025, 12, 29)
LAST_YEAR = 2199
# The longest that the search for the next window goes on; a rule for 29 February skips at most eight years.
MOST_YEARS_AHEAD = 9
ONE_DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class Window:
    """A span of time in which steps may begin, and when the run that uses it begins."""

    name: str
    start: datetime
    end: datetime
    lead: timedelta
    cutoff: timedelta
    time_zone: str
    closed_because: str = ""
    """Why this window does not open; empty if it does."""

    @property
    def run_after(self) -> datetime:
        return self.start - self.lead

    @property
    def last_step_before(self) -> datetime:
        """No step begins at this moment or later; what is in flight then settles."""
        return self.end - self.cutoff

    @property
    def is_open(self) -> bool:
        return not self.closed_because

    def describe(self, now: datetime) -> dict[str, Any]:
        """The window as `evenkeel windows --json` and the page show it."""
        return {
            "name": self.name,
            "opens": format_time(self.start),
            "closes": format_time(self.end),
            "last_step_before": format_time(self.last_step_before),
            "run_starts": format_time(self.run_after),
            "time_zone": self.time_zone,
            "is_open": self.is_open and self.start <= now,
            "closed_because": self.closed_because or None,
        }

    def closed(self, why: str) -> Window:
        return Window(self.name, self.start, self.end, self.lead, self.cutoff, self.time_zone, why)


@dataclass(frozen=True, slots=True)
class WindowCalendar:
    """The windows of a cluster. Without rules it is always closed."""

    rules: tuple[WindowRule, ...] = ()
    blackouts: tuple[Blackout, ...] = ()
    min_distance: timedelta = timedelta()

    def require_sound(self) -> None:
        """Refuse rules that never open a window, or whose windows contradict each other."""
        for rule in self.rules:
            spans = [window for year in range(MOST_YEARS_AHEAD) for window in _expand(rule, FIRST_YEAR + year)]
            if not spans:
                raise InputError(f"window {rule.name!r} never opens", "correct its rrule")
            for former, later in pairwise(spans):
                if later.start < former.end:
                    raise InputError(
                        f"window {rule.name!r} lasts {format_span(rule.duration)} and opens again before that is over",
                        "choose a shorter duration, or fewer days",
                    )
        without_blackouts = WindowCalendar(self.rules, (), self.min_distance)
        judged = [window for year in (FIRST_YEAR, FIRST_YEAR + 1) for window in _judge(without_blackouts, year)]
        opened, closed = {w.name for w in judged if w.is_open}, {w.name: w.closed_because for w in judged}
        for rule in self.rules:
            if rule.name in closed and rule.name not in opened:
                raise InputError(
                    f"window {rule.name!r} never opens, because it always {closed[rule.name]}",
                    "change one of the two, or min_distance",
                )

    def judged(self, after: datetime, years: int = MOST_YEARS_AHEAD) -> Iterator[Window]:
        """Windows whose end lies after a moment, in order, those that stay closed with the reason."""
        first = max(after.astimezone(UTC).year - 1, FIRST_YEAR)
        for year in range(first, min(first + years + 1, LAST_YEAR) + 1):
            yield from (window for window in _judge(self, year) if window.end > after)

    def upcoming(self, after: datetime) -> Iterator[Window]:
        """Windows that open, or are open, after a moment, in order."""
        return (window for window in self.judged(after) if window.is_open)

    def open_at(self, moment: datetime) -> Window | None:
        """The window that is open at a moment, if one is."""
        found = next(self.upcoming(moment), None)
        return found if found is not None and found.start <= moment else None

    def to_json(self) -> dict[str, Any]:
        return {
            "rules": [rule.to_json() for rule in self.rules],
            "blackouts": [blackout.to_json() for blackout in self.blackouts],
            "min_distance": format_span(self.min_distance),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        return cls(
            tuple(WindowRule.from_json("window", each) for each in fields["rules"]),
            tuple(read_blackout(each) for each in fields["blackouts"]),
            read_span(fields["min_distance"]),
        )


def resolve(local: datetime, zone: ZoneInfo) -> datetime:
    """The moment, in UTC, of a local time: the first of two, and the first that exists after one that does not."""
    moment = local.replace(tzinfo=zone, fold=0).astimezone(UTC)
    if moment.astimezone(zone).replace(tzinfo=None) == local:
        return moment
    # In a gap, the offset before it gives a moment after it, and the offset after it one before: it lies in between.
    before, after = local.replace(tzinfo=zone, fold=1).astimezone(UTC), moment
    new_offset = after.astimezone(zone).utcoffset()
    while after - before > SECOND:
        middle = before + (after - before) // 2
        if middle.astimezone(zone).utcoffset() == new_offset:
            after = middle
        else:
            before = middle
    return after.replace(microsecond=0)


@lru_cache(maxsize=512)
def _judge(calendar: WindowCalendar, year: int) -> tuple[Window, ...]:
    """The windows that start in a year of UTC, each open or closed for a reason."""
    last = _last_open(calendar, year - 1)
    candidates = sorted(
        (window for rule in calendar.rules for window in _expand(rule, year)), key=lambda w: (w.start, w.end, w.name)
    )
    judged = []
    for window in candidates:
        why = _why_closed(calendar, window, last)
        judged.append(window.closed(why) if why else window)
        if not why:
            last = window
    return tuple(judged)


def _last_open(calendar: WindowCalendar, year: int) -> Window | None:
    """The last window that opened in a year or in one before."""
    while year >= FIRST_YEAR:
        opened = [window for window in _judge(calendar, year) if window.is_open]
        if opened:
            return opened[-1]
        year -= 1
    return None


def _why_closed(calendar: WindowCalendar, window: Window, last: Window | None) -> str:
    blackout = _find_blackout(calendar.blackouts, window)
    if blackout is not None:
        return f"falls into a blackout ({blackout.describe()})"
    if last is not None and window.start < last.end:
        return f"overlaps window {last.name!r}, which opens before it"
    if last is not None and window.start - last.end < calendar.min_distance:
        return f"begins less than {format_span(calendar.min_distance)} after window {last.name!r} has ended"
    return ""


def _find_blackout(blackouts: tuple[Blackout, ...], window: Window) -> Blackout | None:
    starts, longest = _blackout_times(blackouts, window.time_zone)
    number = bisect_left(starts, window.end)
    if number == 0:
        return None
    end, which = longest[number - 1]
    return blackouts[which] if end > window.start else None


@lru_cache(maxsize=64)
def _blackout_times(
    blackouts: tuple[Blackout, ...], time_zone: str
) -> tuple[list[datetime], list[tuple[datetime, int]]]:
    """When blackouts begin in a time zone, in order, and which of those up to each ends last, and when."""
    zone = ZoneInfo(time_zone)
    spans = sorted((*_span_of(blackout, zone), number) for number, blackout in enumerate(blackouts))
    longest: list[tuple[datetime, int]] = []
    for _, end, number in spans:
        longest.append(max(longest[-1], (end, number)) if longest else (end, number))
    return [start for start, _, _ in spans], longest


def _span_of(blackout: Blackout, zone: ZoneInfo) -> tuple[datetime, datetime]:
    if isinstance(blackout, BlackoutDays):
        days = blackout.first, blackout.last + ONE_DAY
        start, end = (resolve(datetime.combine(day, time()), zone) for day in days)
        return start, end
    return blackout.start, blackout.end


@lru_cache(maxsize=4096)
def _expand(rule: WindowRule, year: int) -> tuple[Window, ...]:
    """A rule's windows that start in a year of UTC. Local days may be two days off those of UTC after a gap."""
    zone = rule.zone
    found: list[Window] = []
    for day in _days(rule, date(year, 1, 1) - 2 * ONE_DAY, date(year, 12, 31) + 2 * ONE_DAY):
        start = resolve(datetime.combine(day, rule.start), zone)
        if start.year == year:
            window = Window(rule.name, start, start + rule.duration, rule.lead, rule.cutoff, rule.time_zone)
            # Days that a time zone skips as a whole end in the same moment.
            if not found or found[-1].start != start:
                found.append(window)
    return tuple(found)


def _days(rule: WindowRule, first: date, last: date) -> Iterator[date]:
    """The days of a rule from a first to a last one, none before `FIRST_DAY`."""
    first = max(first, FIRST_DAY)
    if rule.rrule is None:
        days = (first + number * ONE_DAY for number in range((last - first).days + 1))
        yield from (day for day in days if day.weekday() in rule.days)
        return
    begin, end = datetime.combine(first, time()), datetime.combine(last, time())
    yield from (moment.date() for moment in _parse_rrule(rule.rrule).between(begin, end, inc=True))


@lru_cache(maxsize=64)
def _parse_rrule(text: str) -> Any:
    """A parsed rule, which remembers the days it has found: one that never applies is searched up to the year 9999."""
    from dateutil.rrule import rrulestr

    return rrulestr(text, dtstart=datetime.combine(FIRST_DAY, time()), cache=True)
