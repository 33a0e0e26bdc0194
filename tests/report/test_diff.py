"""Two plans side by side."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest

from evenkeel.model.errors import RefusedError
from evenkeel.model.figures import Bounds
from evenkeel.report.diff import PlanDifference, StepDifference, compare_plans
from support import small_plan
from support.small_cluster import B01, B02, B03, TAKEN_AT
from support.small_plan import CURVE, FIRST, POOL, step

OTHER = "shop/orders/0x40000000_0x80000000"
THIRD = "shop/orders/0x80000000_0xffffffff"


def figures(found: PlanDifference) -> dict[str, tuple[object, object]]:
    return {row.name: (row.first, row.second) for row in found.figures}


def test_plan_does_not_differ_from_itself() -> None:
    plan, steps = small_plan.plan(), [step()]
    found = compare_plans(plan, steps, plan, steps)
    assert (found.origins, found.settings, found.has_same_steps) == ((), (), True)
    assert (found.same_steps, found.rescheduled) == (1, 0)
    assert all(first == second for first, second in figures(found).values())


def test_steps_are_sorted_into_those_of_one_plan_of_the_other_and_of_both() -> None:
    mine = [step(order=0), step(order=1, bundle=OTHER), step(order=2, bundle=THIRD, wave=1)]
    theirs = [step(order=0, destination=B02), step(order=1, bundle=THIRD, wave=2)]
    found = compare_plans(small_plan.plan(), mine, small_plan.plan(), theirs)
    assert found.elsewhere == (StepDifference(FIRST, "transfer", f"{B01} → {B03}", f"{B01} → {B02}"),)
    assert found.only_first == (StepDifference(OTHER, "transfer", f"{B01} → {B03}", None),)
    assert found.only_second == ()
    assert (found.same_steps, found.rescheduled, found.has_same_steps) == (1, 1, False)


def test_splits_at_other_boundaries_differ_and_are_no_moves() -> None:
    mine = [step(kind="split", destination=None, split_boundary=0x20000000), step()]
    theirs = [step(kind="split", destination=None, split_boundary=0x30000000), step()]
    found = compare_plans(small_plan.plan(), mine, small_plan.plan(), theirs)
    (changed,) = found.elsewhere
    assert (changed.first, changed.second) == (f"{B01}, split at 0x20000000", f"{B01}, split at 0x30000000")
    assert figures(found)["moves"] == (1, 1)
    assert figures(found)["splits"] == (1, 1)


def test_origin_settings_and_figures_stand_side_by_side() -> None:
    settings = small_plan.SETTINGS.to_json()
    second = small_plan.plan(
        snapshot_id="another",
        expires_at=TAKEN_AT + timedelta(hours=9),
        settings=settings | {"tolerance": 0.1, "max_steps": 7},
        bounds=Bounds(3, 10, {}, {}),
        curve=CURVE,
        pools=(POOL,),
    )
    found = compare_plans(small_plan.plan(), [step()], second, [step(), step(bundle=OTHER, sessions=5)])
    assert [row.name for row in found.origins] == ["snapshot_id", "expires_at"]
    assert [(row.name, row.first, row.second) for row in found.settings] == [
        ("max_steps", 5_000, 7),
        ("tolerance", 0.4, 0.1),
    ]
    compared = figures(found)
    assert compared["moves"] == (1, 2)
    assert compared["sessions"] == (10, 15)
    assert compared["client_seconds"] == (7.0, 14.0)
    assert compared["least_moves"] == (1, 3)
    assert compared["worst_after"] == (None, 1.333)
    assert compared["pools_outside_band"] == (0, 1)
    assert compared["cpu_max_after"] == (0.32, 0.32)
    json.dumps(found.to_json(), allow_nan=False)


def test_waves_are_compared_by_number() -> None:
    mine = [step(), step(bundle=OTHER, wave=1)]
    found = compare_plans(small_plan.plan(), mine, small_plan.plan(), [step()])
    assert [(row.wave, row.first_steps, row.second_steps) for row in found.waves] == [(0, 1, 1), (1, 1, 0)]
    assert found.waves[1].first_client_seconds == 7.0
    assert found.waves[1].second_client_seconds == 0.0


def test_plans_of_different_clusters_are_refused() -> None:
    with pytest.raises(RefusedError, match="the first plan is of cluster 'fleet', the second of cluster 'other'"):
        compare_plans(small_plan.plan(), [], small_plan.plan(cluster="other"), [])
