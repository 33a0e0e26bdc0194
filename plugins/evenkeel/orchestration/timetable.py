"""The schedule of `rebalance_window`: one run for each maintenance window, whose data interval is the window.

A run begins `lead` before its window opens. A missed window is not made up for; one in which steps may still begin is
used. An error in `deserialize` would make the Dag vanish without an import error, so it does nothing but read.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Self

import pendulum
from airflow.timetables.base import DagRunInfo, DataInterval, TimeRestriction, Timetable

from evenkeel.windows.calendar import Window, WindowCalendar

NAMES_SHOWN = 3


def now() -> datetime:
    return datetime.now(UTC)


class MaintenanceWindow(Timetable):
    """Opens when the windows of a cluster do."""

    active_runs_limit = 1

    def __init__(self, calendar: WindowCalendar) -> None:
        self.calendar = calendar

    @property
    def summary(self) -> str:
        names = [rule.name for rule in self.calendar.rules]
        more = f" and {len(names) - NAMES_SHOWN} more" if len(names) > NAMES_SHOWN else ""
        return f"windows: {', '.join(names[:NAMES_SHOWN])}{more}"

    @property
    def description(self) -> str:  # type: ignore[override]
        return "Before each maintenance window of the cluster"

    def serialize(self) -> dict[str, Any]:
        return self.calendar.to_json()

    @classmethod
    def deserialize(cls, data: dict[str, Any]) -> Self:
        return cls(WindowCalendar.from_json(data))

    def infer_manual_data_interval(self, *, run_after: pendulum.DateTime) -> DataInterval:
        """A run by hand is not bound to a window."""
        return DataInterval.exact(run_after)

    def next_dagrun_info(
        self, *, last_automated_data_interval: DataInterval | None, restriction: TimeRestriction
    ) -> DagRunInfo | None:
        after = max(filter(None, (now(), restriction.earliest)))
        for window in self.calendar.upcoming(after):
            if last_automated_data_interval is not None and window.start <= last_automated_data_interval.start:
                continue
            if window.last_step_before <= after:
                continue
            if restriction.latest is not None and window.run_after > restriction.latest:
                return None
            return describe_run(window)
        return None


def describe_run(window: Window) -> DagRunInfo:
    interval = DataInterval(pendulum.instance(window.start), pendulum.instance(window.end))
    return DagRunInfo(
        run_after=pendulum.instance(window.run_after), data_interval=interval, partition_date=None, partition_key=None
    )
