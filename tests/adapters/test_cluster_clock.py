"""The cluster's clock: measured by what was written, running on monotonic time in between."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.adapters.fencing.cluster_clock import ClusterClock
from evenkeel.adapters.machine import SystemClock, monotonic_s
from evenkeel.model.errors import RunStoppedError

START = datetime(2026, 1, 31, 3, 0, tzinfo=UTC)


class HandClock:
    """Two clocks that stand still until a test moves them."""

    def __init__(self) -> None:
        self.wall = START
        self.passed_s = 100.0

    def now(self) -> datetime:
        return self.wall

    def monotonic_s(self) -> float:
        return self.passed_s

    def sleep(self, seconds: float) -> None:
        self.pass_time(seconds)

    def pass_time(self, seconds: float) -> None:
        self.wall += timedelta(seconds=seconds)
        self.passed_s += seconds


def measured(clock: HandClock, ahead_s: float = 0.0) -> ClusterClock:
    """A clock of a cluster that is so far ahead of this machine's."""
    found = ClusterClock(clock, limit_s=5.0)
    found.measure(found.read(), round((START.timestamp() + ahead_s) * 1000))
    return found


def test_cluster_time_goes_on_whatever_becomes_of_the_machines_clock() -> None:
    clock = HandClock()
    cluster = measured(clock, ahead_s=2.0)
    clock.pass_time(10.0)
    clock.wall -= timedelta(hours=5)
    assert cluster.now() == START + timedelta(seconds=12.0)


def test_before_any_measurement_the_machines_clock_is_all_there_is() -> None:
    clock = HandClock()
    cluster = ClusterClock(clock, limit_s=5.0)
    clock.wall += timedelta(hours=5)
    cluster.require_steady()
    assert cluster.now() == clock.wall


@pytest.mark.parametrize("step_s", [-6.0, 6.0])
def test_clock_that_was_set_is_noticed_before_anything_is_written(step_s: float) -> None:
    clock = HandClock()
    cluster = measured(clock)
    clock.pass_time(600.0)
    cluster.require_steady()
    clock.wall += timedelta(seconds=step_s)
    with pytest.raises(RunStoppedError, match=r"clock is 6\.0 s off what it showed before, the limit is 5\.0 s"):
        cluster.require_steady()


@pytest.mark.parametrize("ahead_s", [-5.5, 5.5])
def test_offset_beyond_the_limit_is_refused(ahead_s: float) -> None:
    with pytest.raises(RunStoppedError, match=r"clock is 5\.5 s off ZooKeeper's"):
        measured(HandClock(), ahead_s)


def test_answer_that_took_long_proves_no_offset() -> None:
    clock = HandClock()
    cluster = ClusterClock(clock, limit_s=5.0)
    before = cluster.read()
    clock.pass_time(60.0)
    cluster.measure(before, round((START.timestamp() + 30.0) * 1000))
    assert cluster.now() == START + timedelta(seconds=60.0)


def test_monotonic_time_counts_what_a_suspended_machine_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    slept_s = {time.CLOCK_BOOTTIME: 3_600.0}
    real = time.clock_gettime
    monkeypatch.setattr(time, "clock_gettime", lambda which: real(which) + slept_s.get(which, 0.0))
    assert monotonic_s() - time.monotonic() > 3_000.0
    assert SystemClock().monotonic_s() - time.monotonic() > 3_000.0
