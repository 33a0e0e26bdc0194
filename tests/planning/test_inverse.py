"""Rollback: which steps are undone, in which order and waves, and why others are not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from evenkeel.model.errors import InputError
from evenkeel.model.plan import ROLLBACK, StepKind, digest_rows, invert
from evenkeel.model.run import StepState
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import PolicyDocument
from evenkeel.planning.manual.build_plan import LoadedSnapshot
from evenkeel.planning.manual.inverse import AppliedStep, build_rollback, is_left_to_undo, require_inverse
from support import small_cluster, small_plan
from support.by_hand import PLAN_ID, deed, known, pinned_to
from support.small_cluster import B01, B02, B03, change

FIRST, SECOND = "shop/orders/0x00000000_0x40000000", "shop/orders/0x40000000_0x80000000"
THIRD = "shop/orders/0x80000000_0xc0000000"
AUDIT = ("shop/audit/0x00000000_0x80000000", "shop/audit/0x80000000_0xffffffff")


def left(cluster: LoadedSnapshot, deeds: Sequence[AppliedStep]) -> tuple[str, str]:
    """The rule and the words for the one thing that stays."""
    made = build_rollback(cluster, PLAN_ID, deeds)
    (row,) = made.rejections
    assert made.steps == []
    return row.rule, row.detail


def test_steps_go_back_last_first_behind_a_canary() -> None:
    # the run brought three bundles from b03 to b01
    deeds = [deed(order, bundle, B03, B01) for order, bundle in enumerate((FIRST, SECOND, THIRD))]
    made = build_rollback(known(), PLAN_ID, deeds)
    assert [(s.order, s.wave, s.bundle, s.source, s.destination) for s in made.steps] == [
        (0, 0, THIRD, B01, B03),
        (1, 1, SECOND, B01, B03),
        (2, 1, FIRST, B01, B03),
    ]
    assert made.steps[0].reason == f"undoes step 2 of plan {PLAN_ID[:12]}"
    assert (made.steps[0].expected_version_id, made.steps[0].destination_incarnation) == (7, 103)
    assert (made.plan.strategy, made.rejections) == (ROLLBACK, [])


def test_waves_keep_their_size_and_budget() -> None:
    deeds = [deed(order, bundle, B03, B01) for order, bundle in enumerate((FIRST, SECOND, THIRD))]
    small = build_rollback(known(settings=Settings(wave_steps=1)), PLAN_ID, deeds)
    assert [step.wave for step in small.steps] == [0, 1, 2]
    tight = build_rollback(known(settings=Settings(wave_max_sessions=15)), PLAN_ID, deeds)
    assert [step.wave for step in tight.steps] == [0, 1, 2]


@pytest.mark.parametrize("state", [StepState.APPLIED, StepState.INTENDED, StepState.FAILED])
def test_step_that_a_crash_left_open_goes_back_if_it_has_arrived(state: StepState) -> None:
    made = build_rollback(known(), PLAN_ID, [deed(0, FIRST, B03, B01, state=state)])
    assert [step.bundle for step in made.steps] == [FIRST]


def test_step_that_was_skipped_is_no_deed() -> None:
    made = build_rollback(known(), PLAN_ID, [deed(0, FIRST, B03, B01, state=StepState.SKIPPED)])
    assert (made.steps, made.rejections) == ([], [])


def test_former_owner_that_has_restarted_is_as_good_as_before() -> None:
    brokers = change(small_cluster.brokers(), "broker_id", B03, incarnation=900)
    (step,) = build_rollback(known(brokers=brokers), PLAN_ID, [deed(0, FIRST, B03, B01)]).steps
    assert step.destination_incarnation == 900


def test_what_was_moved_on_since_stays() -> None:
    assert left(known(), [deed(0, FIRST, B03, B02)]) == ("moved-on", f"{FIRST} is owned by {B01} now, not by {B02}")


def test_what_is_back_already_stays() -> None:
    assert left(known(), [deed(0, FIRST, B01, B02)]) == ("back", f"{FIRST} is with {B01} already")


def test_what_is_in_flight_stays() -> None:
    bundles = change(small_cluster.bundles(), "bundle", FIRST, state="Splitting")
    assert left(known(bundles=bundles), [deed(0, FIRST, B03, B01)])[0] == "in-flight"


def test_split_and_unload_are_not_undone() -> None:
    assert left(known(), [deed(0, FIRST, B01, None, kind=StepKind.SPLIT)]) == (
        "split",
        "a split is not undone: Pulsar cannot join bundles again",
    )
    assert left(known(), [deed(0, FIRST, B01, None, kind=StepKind.UNLOAD)])[0] == "unload"


def test_bundle_that_was_split_since_is_told() -> None:
    gone = "shop/orders/0x00000000_0x80000000"
    assert left(known(), [deed(0, gone, B03, B01)]) == ("gone", f"{gone} is not there any more; it was split since")


def test_former_owner_that_is_gone_is_told() -> None:
    assert left(known(), [deed(0, FIRST, "b9:8080", B01)]) == (
        "not-registered",
        "its former owner b9:8080 is not registered any more",
    )


def test_former_owner_that_may_not_have_it_is_told() -> None:
    stopping = change(small_cluster.brokers(), "broker_id", B03, state="Stopping")
    assert left(known(brokers=stopping), [deed(0, FIRST, B03, B01)])[0] == "not-active"
    pinned = known(documents=[pinned_to("b01.fleet")])
    assert left(pinned, [deed(0, FIRST, B03, B01)])[0] == "not-eligible"


def test_what_waits_for_its_former_owner_or_is_in_flight_is_still_left_to_undo() -> None:
    in_flight = change(small_cluster.bundles(), "bundle", FIRST, state="Splitting")
    assert is_left_to_undo(build_rollback(known(), PLAN_ID, [deed(0, FIRST, B03, B01)]))
    assert is_left_to_undo(build_rollback(known(), PLAN_ID, [deed(0, FIRST, "b9:8080", B01)]))
    assert is_left_to_undo(build_rollback(known(bundles=in_flight), PLAN_ID, [deed(0, FIRST, B03, B01)]))


def test_what_is_back_or_moved_on_or_cannot_be_undone_is_not_left_to_undo() -> None:
    deeds = [
        deed(0, FIRST, B01, B02),
        deed(1, SECOND, B03, B02),
        deed(2, THIRD, B01, None, kind=StepKind.UNLOAD),
    ]
    assert not is_left_to_undo(build_rollback(known(), PLAN_ID, deeds))


def test_step_that_would_crowd_a_group_again_stays_and_the_others_go() -> None:
    # the run brought audit's second bundle from b02, where both were, to b03
    apart = PolicyDocument("anti_affinity", "shop/audit", '"apart"')
    made = build_rollback(known(documents=[apart]), PLAN_ID, [deed(0, AUDIT[1], B02, B03), deed(1, FIRST, B03, B01)])
    assert [(step.order, step.wave, step.bundle) for step in made.steps] == [(0, 0, FIRST)]
    (row,) = made.rejections
    assert (row.rule, row.bundle) == ("anti-affinity", AUDIT[1])


def test_step_that_needs_room_first_gets_a_wave_of_its_own() -> None:
    # back: audit's first bundle from b02 to b01, its second from b03 to b02; at once, b02 might have both
    apart = PolicyDocument("anti_affinity", "shop/audit", '"apart"')
    deeds = [deed(0, AUDIT[0], B01, B02), deed(1, AUDIT[1], B02, B03), deed(2, FIRST, B03, B01)]
    made = build_rollback(known(documents=[apart], settings=Settings(canary_steps=3)), PLAN_ID, deeds)
    assert [(step.wave, step.bundle) for step in made.steps] == [(0, FIRST), (0, AUDIT[0]), (1, AUDIT[1])]
    assert made.rejections == []


def test_plan_whose_steps_lead_back_another_way_is_not_rolled_back() -> None:
    steps = [small_plan.step()]
    plan = small_plan.plan(inverse_sha256=digest_rows(invert(steps)))
    require_inverse(plan, steps)
    with pytest.raises(InputError, match=f"plan {plan.plan_id[:12]} names another inverse plan"):
        require_inverse(plan, [small_plan.step(destination=B02)])
