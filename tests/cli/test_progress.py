"""What is told of a run while it goes on."""

from __future__ import annotations

import dataclasses

import pytest

from evenkeel.cli.progress import following
from evenkeel.execution.pace import Pace
from evenkeel.model.run import StepResult, StepState
from support.small_plan import step

STEPS = [dataclasses.replace(step(), order=n, wave=min(n, 1), bundle=f"t/n/{n}") for n in range(5)]


def result(order: int, state: StepState = StepState.SETTLED) -> StepResult:
    return StepResult(order, f"t/n/{order}", "b1:8080", "b2:8080", state, "")


def test_wave_speed_rest_and_last_event_are_told() -> None:
    pace = Pace(STEPS, began_s=100.0)
    assert pace.tell(100.0) == "wave 1 of 2"
    pace.note(result(0))
    pace.note(result(1, StepState.SKIPPED))
    assert pace.tell(104.0) == "wave 2 of 2, 0.5 steps/s, about 6 s left, t/n/1 skipped"
    for order in (2, 3, 4):
        pace.note(result(order))
    assert pace.tell(105.0) == "wave 2 of 2, 1.0 steps/s, t/n/4 settled"


def test_step_is_counted_once_and_not_before_its_end() -> None:
    pace = Pace(STEPS, began_s=0.0)
    for state in (StepState.APPLIED, StepState.SETTLED, StepState.SETTLED):
        pace.note(result(0, state))
    assert pace.done == 1


@pytest.mark.parametrize(("seconds", "told"), [(4_000.0, "67 min"), (40_000.0, "11.1 h")])
def test_long_rests_are_told_in_larger_units(seconds: float, told: str) -> None:
    pace = Pace(STEPS, began_s=0.0)
    pace.note(result(0))
    assert f"about {told} left" in pace.tell(seconds / 4)


def test_log_gets_plain_lines_and_json_gets_silence(capfd: pytest.CaptureFixture[str]) -> None:
    for as_json in (True, False):
        with following(STEPS, as_json) as report:
            for order in range(5):
                report(result(order))
    told = capfd.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1, "a short run is one line"
    assert told.err.startswith("5 of 5 steps, wave 2 of 2, ")
