"""How far a run is: told in the log at the end at least, stored for Airflow's page, and never in the run's way."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from evenkeel.model.plan import Step
from evenkeel.model.run import StepResult, StepState
from evenkeel.orchestration.progress import TaskProgress
from support import small_plan


class Store:
    """The part of a task's storage that progress needs."""

    def __init__(self, is_broken: bool = False) -> None:
        self.values: dict[str, Any] = {}
        self.calls = 0
        self._is_broken = is_broken

    def set(self, key: str, value: Any) -> None:
        self.calls += 1
        if self._is_broken:
            raise RuntimeError("the API server is away")
        self.values[key] = value


def steps() -> list[Step]:
    return [replace(small_plan.stored().steps[0], order=order, wave=order) for order in range(2)]


def settled(order: int) -> StepResult:
    return StepResult(order, f"t/n{order}/0x00000000_0x40000000", "a:1", "b:1", StepState.SETTLED, "")


def test_progress_is_logged_and_stored(caplog: pytest.LogCaptureFixture) -> None:
    store = Store()
    follow = TaskProgress(steps(), store)
    with caplog.at_level(logging.INFO):
        follow(settled(0))
        follow(settled(1))
    assert caplog.messages[-1].startswith("2 of 2 steps, wave 2 of 2")
    stored = store.values["progress"]
    assert {key: stored[key] for key in ("done", "steps", "wave", "waves")} == {
        "done": 2,
        "steps": 2,
        "wave": 2,
        "waves": 2,
    }


def test_run_goes_on_where_progress_cannot_be_stored(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(is_broken=True)
    follow = TaskProgress(steps(), store)
    for result in (settled(0), settled(1), settled(1)):
        follow(result)
    assert "Airflow does not store the progress: the API server is away" in caplog.text
    assert store.calls == 1
    TaskProgress(steps(), None)(settled(0))
