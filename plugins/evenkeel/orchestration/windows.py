"""Maintenance windows in Airflow: which window a run belongs to, and what it may do when.

    run begins ──▶ plan, gate, approval ──▶ wait_for_window ──▶ apply_plan, until end − cutoff
    start − lead                            start

A run that was scheduled belongs to its window. A run by hand belongs to the window that is open, or to the next one if
that is near; where the cluster has no windows, or somebody breaks the glass, it belongs to none and waits for none.
The first task of a run decides that once; whatever is configured later can only close the window.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

from airflow.sdk import task

from evenkeel.model.errors import RefusedError
from evenkeel.model.timestamps import format_time, parse_time
from evenkeel.orchestration import TaskOutput
from evenkeel.orchestration.connection import ClusterAccess, open_access
from evenkeel.orchestration.retry import LOOK_TIMEOUT, POKE_INTERVAL, SENSOR
from evenkeel.orchestration.timetable import now
from evenkeel.windows.rules import LONGEST_LEAD, format_span

if TYPE_CHECKING:
    from evenkeel.model.settings import Settings
    from evenkeel.windows.calendar import Window

# A person, or a Dag of theirs, has triggered such a run.
BY_HAND = ("manual", "operator_triggered")
WINDOW_START = "window_start"


def choose_window(access: ClusterAccess, run: Any, moment: datetime, *, is_free: bool = False) -> Window | None:
    """The window that a run belongs to; None where it may apply its plan at once.

    `is_free` says that a run by hand need not keep to windows. A run for a window that is not in the configuration, or
    by hand with no window near, is refused.
    """
    if run.run_type not in BY_HAND:
        return _require_window(access, run.data_interval_start)
    calendar = access.windows
    if is_free or not calendar.rules:
        return None
    window = next((each for each in calendar.upcoming(moment) if moment < each.last_step_before), None)
    if window is None or window.start - moment > LONGEST_LEAD:
        when = "no maintenance window opens any more" if window is None else f"the next opens at {_local(window)}"
        raise RefusedError(
            f"{access.cluster} is outside its maintenance windows, and {when}",
            "wait until two days before it opens, or give a reason in break_glass to run now",
        )
    return window


def find_window(access: ClusterAccess, request: Mapping[str, Any]) -> Window | None:
    """The window that the first task chose for a run, as the configuration has it now."""
    start = request[WINDOW_START]
    return None if start is None else _require_window(access, parse_time(start))


def _require_window(access: ClusterAccess, start: datetime | None) -> Window:
    window = None if start is None else access.windows.open_at(start)
    if start is None or window is None or window.start != start:
        when = "when this run was scheduled" if start is None else f"at {format_time(start)}"
        raise RefusedError(
            f"no maintenance window of {access.cluster} opens {when}",
            "see `evenkeel windows`; the next window gets a run of its own",
        )
    return window


def _local(window: Window) -> str:
    return f"{window.start.astimezone(ZoneInfo(window.time_zone)):%a %Y-%m-%d %H:%M %Z}"


def expire_with(settings: Settings, taken_at: datetime, window: Window) -> Settings:
    """Settings by which a plan from a snapshot expires with the window that it is made for, to the second."""
    return replace(settings, plan_expires_after_s=max(1, math.floor((window.end - taken_at).total_seconds())))


def describe_window(window: Window, steps: int, seconds: float) -> list[str]:
    """A warning if a plan will probably not be finished in its window."""
    available = window.last_step_before - max(window.start, now())
    needed = timedelta(seconds=math.ceil(seconds))
    if needed <= available:
        return []
    return [
        f"{steps:,} steps take about {format_span(needed)}, but in window {window.name!r} steps may begin for "
        f"{format_span(available)} only; the rest is planned anew for the next window"
    ]


@task.sensor(
    mode="reschedule",
    poke_interval=POKE_INTERVAL.total_seconds(),
    timeout=2 * LONGEST_LEAD.total_seconds(),
    execution_timeout=LOOK_TIMEOUT,
    **SENSOR,
)
def wait_for_window(cluster: str | None, request: TaskOutput) -> bool:
    """Wait until the run's window opens, without a worker slot; a run that belongs to none goes on at once."""
    window = find_window(open_access(cluster), request)
    return window is None or now() >= window.start
