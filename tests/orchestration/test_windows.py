"""Maintenance windows in Airflow: when runs are scheduled, what they wait for, and when they stop."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pendulum
import pytest
from airflow.sdk.api.datamodels._generated import DagRunType
from airflow.timetables.base import DataInterval, TimeRestriction

from evenkeel.adapters.lake.store import Lake
from evenkeel.configuration import ClusterConfiguration
from evenkeel.model.approval import ApprovalRules
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError
from evenkeel.model.settings import Settings
from evenkeel.orchestration import timetable, windows
from evenkeel.orchestration.connection import ClusterAccess
from evenkeel.orchestration.timetable import MaintenanceWindow
from evenkeel.windows.calendar import WindowCalendar
from evenkeel.windows.rules import WindowRule

# A Sunday. The window is open from 02:00 to 05:00, a run begins at midnight, and no step begins after 04:45.
SUNDAY = datetime(2026, 1, 4, tzinfo=UTC)
CALENDAR = WindowCalendar(
    (
        WindowRule.from_json(
            "windows[0]",
            {
                "name": "Sunday nights",
                "days": ["sun"],
                "start": "02:00",
                "duration": "3h",
                "time_zone": "UTC",
                "lead": "2h",
                "cutoff": "15m",
            },
        ),
    )
)
ALWAYS = TimeRestriction(None, None, False)


def at(hours: float) -> datetime:
    return SUNDAY + timedelta(hours=hours)


def interval(hours: float) -> DataInterval:
    return DataInterval(pendulum.instance(at(hours)), pendulum.instance(at(hours + 3)))


@pytest.mark.parametrize(
    ("hours", "last", "start"),
    [
        (-30, None, 2),
        (1, None, 2),  # the run should have begun, and begins now
        (3, None, 2),  # an open window is used
        (4.7, None, 2),
        (4.75, None, 2 + 168),  # no step could begin any more
        (3, 2, 2 + 168),  # one run a window
        (200, 2, 2 + 336),  # a missed window is not made up for
    ],
)
def test_run_is_scheduled_for_the_next_window_in_which_steps_may_begin(
    monkeypatch: pytest.MonkeyPatch, hours: float, last: float | None, start: float
) -> None:
    monkeypatch.setattr(timetable, "now", lambda: at(hours))
    found = MaintenanceWindow(CALENDAR).next_dagrun_info(
        last_automated_data_interval=None if last is None else interval(last), restriction=ALWAYS
    )
    assert found is not None
    assert (found.run_after, found.data_interval) == (at(start - 2), interval(start))


def test_no_run_is_scheduled_outside_what_the_dag_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timetable, "now", lambda: at(-30))
    schedule = MaintenanceWindow(CALENDAR)
    later = TimeRestriction(pendulum.instance(at(100)), None, False)
    ended = TimeRestriction(None, pendulum.instance(at(-1)), False)
    found = schedule.next_dagrun_info(last_automated_data_interval=None, restriction=later)
    assert found is not None
    assert found.data_interval == interval(2 + 168)
    assert schedule.next_dagrun_info(last_automated_data_interval=None, restriction=ended) is None
    closed = MaintenanceWindow(WindowCalendar())
    assert closed.next_dagrun_info(last_automated_data_interval=None, restriction=ALWAYS) is None


def test_schedule_survives_serialisation_and_names_its_windows() -> None:
    again = MaintenanceWindow.deserialize(MaintenanceWindow(CALENDAR).serialize())
    assert again.calendar == CALENDAR
    assert again.summary == "windows: Sunday nights"


def access(tmp_path: Path, calendar: WindowCalendar = CALENDAR) -> ClusterAccess:
    return ClusterAccess(
        Lake(str(tmp_path)),
        ClusterConnection("fleet", "localhost:2181"),
        Settings(),
        ApprovalRules(),
        ClusterConfiguration("fleet", windows=calendar),
    )


def run_of(run_type: str, start: datetime | None = None) -> Any:
    return SimpleNamespace(run_type=DagRunType(run_type), data_interval_start=start)


def test_scheduled_run_belongs_to_its_window(tmp_path: Path) -> None:
    window = windows.choose_window(access(tmp_path), run_of("scheduled", at(2)), at(0))
    assert window is not None
    assert (window.start, window.last_step_before) == (at(2), at(4.75))


@pytest.mark.parametrize("run_type", ["manual", "operator_triggered"])
@pytest.mark.parametrize(
    ("hours", "start"),
    [
        (-40, 2),  # less than two days before it opens
        (1, 2),
        (3, 2),  # it is open
        (4.8, None),  # no step may begin any more, and the next one is a week away
        (150, 2 + 168),
    ],
)
def test_run_by_hand_belongs_to_the_window_that_is_open_or_near(
    tmp_path: Path, run_type: str, hours: float, start: float | None
) -> None:
    run = run_of(run_type, at(hours))
    if start is None:
        with pytest.raises(
            RefusedError, match=r"outside its maintenance windows, and the next opens at Sun 2026-01-11"
        ):
            windows.choose_window(access(tmp_path), run, at(hours))
    else:
        window = windows.choose_window(access(tmp_path), run, at(hours))
        assert window is not None
        assert window.start == at(start)


def test_run_by_hand_is_free_where_there_are_no_windows_or_somebody_breaks_the_glass(tmp_path: Path) -> None:
    assert windows.choose_window(access(tmp_path, WindowCalendar()), run_of("manual"), at(0)) is None
    assert windows.choose_window(access(tmp_path), run_of("manual"), at(10), is_free=True) is None


@pytest.mark.parametrize("run_type", ["scheduled", "backfill"])
@pytest.mark.parametrize(("calendar", "start"), [(WindowCalendar(), at(2)), (CALENDAR, at(3)), (CALENDAR, None)])
def test_run_whose_window_is_not_in_the_configuration_is_refused(
    tmp_path: Path, calendar: WindowCalendar, start: datetime | None, run_type: str
) -> None:
    with pytest.raises(RefusedError, match="no maintenance window of fleet opens (at 2026-01-04T0|when this run)"):
        windows.choose_window(access(tmp_path, calendar), run_of(run_type, start), at(0), is_free=True)


def test_window_that_was_closed_since_the_run_began_is_refused(tmp_path: Path) -> None:
    request = {"window_start": "2026-01-04T02:00:00Z"}
    assert windows.find_window(access(tmp_path), request) is not None
    with pytest.raises(RefusedError, match="no maintenance window of fleet opens at 2026-01-04T02"):
        windows.find_window(access(tmp_path, WindowCalendar()), request)
    assert windows.find_window(access(tmp_path), {"window_start": None}) is None


@pytest.mark.parametrize(("hours", "is_open"), [(1.99, False), (2, True), (4, True)])
def test_run_waits_until_its_window_opens(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, hours: float, is_open: bool
) -> None:
    monkeypatch.setattr(windows, "now", lambda: at(hours))
    monkeypatch.setattr(windows, "open_access", lambda cluster: access(tmp_path))
    poke: Any = windows.wait_for_window.function  # type: ignore[attr-defined]
    assert poke("fleet", {"window_start": "2026-01-04T02:00:00Z"}) is is_open


@pytest.mark.parametrize(("hours", "seconds", "warns"), [(0, 9_900, False), (0, 9_901, True), (4, 2_701, True)])
def test_window_that_cannot_hold_the_plan_is_told(
    monkeypatch: pytest.MonkeyPatch, hours: float, seconds: float, warns: bool
) -> None:
    monkeypatch.setattr(windows, "now", lambda: at(hours))
    told = windows.describe_window(next(CALENDAR.upcoming(at(0))), 1_200, seconds)
    assert bool(told) is warns
    if hours:
        assert told == [
            "1,200 steps take about 45m1s, but in window 'Sunday nights' steps may begin for 45m only; the rest is "
            "planned anew for the next window"
        ]


def test_plan_for_a_window_expires_with_it() -> None:
    (window,) = [next(CALENDAR.upcoming(at(0)))]
    assert windows.expire_with(Settings(), at(0.5), window).plan_expires_after_s == 4.5 * 3600
