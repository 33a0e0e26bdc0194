"""Known-bad histories for I4 and I10: going on past a deadline, beginning when nothing may begin."""

from __future__ import annotations

from evenkeel.model.service_unit import ServiceUnitState
from faults.made_histories import (
    BUNDLES,
    DEADLINE_MS,
    HOME,
    MORE_THAN_SLACK_MS,
    OPERATOR,
    START_MS,
    WRITER,
    A,
    B,
    Bad,
    Maker,
    change,
    finish,
    good,
    put,
    record,
    started,
    step,
)

TWO_WAVES = (step(0), step(1, wave=1))


def goes_on_while_a_flight_is_overdue() -> Maker:
    made = started(step(0), step(1))
    made.begin(0)
    made.now_ms += DEADLINE_MS + MORE_THAN_SLACK_MS
    made.begin(1)
    finish(made, 0)
    return finish(made, 1)


def never_lands() -> Maker:
    made = started()
    made.begin()
    made.conclude(state="failed")
    return made


def without_approval() -> Maker:
    made = good()
    made.facts["approved_at_ms"] = None
    return made


def after_the_window() -> Maker:
    made = good()
    made.facts["ends_at_ms"] = made.transactions[-1].time_ms - MORE_THAN_SLACK_MS
    return made


def after_the_end_that_the_caller_gave() -> Maker:
    """A run goes on after its caller's word, though the plan's own window is still open."""
    made = started(*TWO_WAVES, until_ms={1: START_MS})
    made.begin(0)
    finish(made, 0)
    made.now_ms += MORE_THAN_SLACK_MS
    made.begin(1)
    return finish(made, 1)


def after_the_kill_switch() -> Maker:
    made = started()
    made.write(OPERATOR, put(f"{HOME}/stop", b"{}"))
    made.begin()
    return finish(made)


def bundle_that_is_not_in_the_plan() -> Maker:
    made = good()
    releasing = record(ServiceUnitState.RELEASING, 2, B, A)
    made.write(WRITER, change(made.unit(BUNDLES[2]), releasing))
    return made


def with_a_clock_that_is_off() -> Maker:
    made = started(clock_limit_ms=DEADLINE_MS)
    made.now_ms += DEADLINE_MS + MORE_THAN_SLACK_MS
    made.begin()
    return finish(made)


BAD: Bad = (
    ("I4", goes_on_while_a_flight_is_overdue),
    ("I4", never_lands),
    ("I10", without_approval),
    ("I10", after_the_window),
    ("I10", after_the_end_that_the_caller_gave),
    ("I10", after_the_kill_switch),
    ("I10", bundle_that_is_not_in_the_plan),
    ("I10", with_a_clock_that_is_off),
)
