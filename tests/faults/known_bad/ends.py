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
    good,
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


def others_forgotten_after_the_leader_overrode_one() -> Maker:
    made = started(*TWO_WAVES, is_done=False)
    made.begin(0)
    made.override(0)
    made.conclude(0, "failed")
    return made


def others_forgotten_after_a_broker_came_back() -> Maker:
    made = started(*TWO_WAVES, is_done=False)
    made.register_again(C)
    made.begin(0)
    return finish(made, 0)


def failed_call(detail: str, went_to: str | None = C) -> Maker:
    """An admin call whose step is journalled as failed, with these words; the bundle may have gone somewhere."""
    made = Maker(is_admin_call=True, facts={"is_done": False})
    made.build_cluster()
    made.acquire()
    made.begin()
    if went_to is not None:
        made.hand_over(to=went_to)
    made.conclude(state="failed", detail=detail)
    return made


def failure_that_does_not_say_where_the_bundle_went() -> Maker:
    return failed_call("not settled within 8 s")


def failure_of_a_call_that_was_never_made() -> Maker:
    return failed_call(f"not settled within 8 s: the bundle is Owned, owned by {A}", went_to=None)


def failure_that_names_the_wrong_broker() -> Maker:
    return failed_call("the bundle went to d:8080")


def never_says_that_it_is_done() -> Maker:
    made = good()
    made.facts["is_done"] = False
    return made


def failed_without_another_hand() -> Maker:
    """The bundle has arrived, and the journal goes on calling its step failed."""
    made = started(is_done=False)
    made.begin()
    made.hand_over()
    made.conclude(state="failed")
    return made


def moves_what_it_was_not_to_begin() -> Maker:
    """A run that was refused must leave what it did not begin where it was."""
    made = started(must_finish=False)
    made.write(BROKER, change(made.unit(BUNDLES[0]), record(ServiceUnitState.RELEASING, 2, C, A)))
    made.hand_over(to=C)
    return made


def done_although_a_step_failed() -> Maker:
    made = started()
    made.begin()
    made.override()
    made.conclude(state="failed")
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


def switch_that_an_operator_wants_off_undone() -> Maker:
    made = started(set_by_operator={"loadBalancerSheddingEnabled": "false"})
    for session in (WRITER, OPERATOR):
        made.configure(session, loadBalancerSheddingEnabled="false")
    made.begin()
    finish(made)
    made.configure(WRITER, loadBalancerSheddingEnabled="true")
    return made


BAD: Bad = (
    ("I9", ends_elsewhere),
    ("I9", step_forgotten_by_the_resumed_run),
    ("I9", others_forgotten_after_the_leader_overrode_one),
    ("I9", others_forgotten_after_a_broker_came_back),
    ("I9", failure_that_does_not_say_where_the_bundle_went),
    ("I9", failure_of_a_call_that_was_never_made),
    ("I9", failure_that_names_the_wrong_broker),
    ("I9", never_says_that_it_is_done),
    ("I9", failed_without_another_hand),
    ("I9", moves_what_it_was_not_to_begin),
    ("I9", done_although_a_step_failed),
    ("I11", switches_left_off),
    ("I11", switches_of_another_hand_overwritten),
    ("I11", switch_that_an_operator_wants_off_undone),
)
