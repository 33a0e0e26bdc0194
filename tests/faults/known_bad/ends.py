"""Known-bad histories for I9 and I11: other ends, switches left off."""

from __future__ import annotations

from evenkeel.model.service_unit import ServiceUnitState
from faults.made_histories import (
    BROKER,
    BUNDLES,
    OPERATOR,
    WRITER,
    A,
    Bad,
    C,
    Maker,
    change,
    finish,
    record,
    started,
    step,
)

TWO_WAVES = (step(0), step(1, wave=1))


def ends_elsewhere() -> Maker:
    made = started()
    made.begin(destination=C)
    made.hand_over(to=C)
    made.conclude(state="failed")
    return made


def step_forgotten_by_the_resumed_run() -> Maker:
    made = started(*TWO_WAVES)
    made.begin(0)
    return finish(made, 0)


def moves_what_it_was_not_to_begin() -> Maker:
    """A run that was refused must leave what it did not begin where it was."""
    made = started(must_finish=False)
    made.write(BROKER, change(made.unit(BUNDLES[0]), record(ServiceUnitState.RELEASING, 2, C, A)))
    made.hand_over(to=C)
    return made


def switches_left_off() -> Maker:
    made = started()
    made.configure(WRITER, loadBalancerSheddingEnabled="false")
    made.begin()
    return finish(made)


def switches_of_another_hand_overwritten() -> Maker:
    made = started()
    made.configure(OPERATOR, loadBalancerSheddingEnabled="false")
    made.begin()
    finish(made)
    made.configure(WRITER, loadBalancerSheddingEnabled="true")
    return made


BAD: Bad = (
    ("I9", ends_elsewhere),
    ("I9", step_forgotten_by_the_resumed_run),
    ("I9", moves_what_it_was_not_to_begin),
    ("I11", switches_left_off),
    ("I11", switches_of_another_hand_overwritten),
)
