"""The figures of a plan are typed, and a document whose figures do not fit is refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from evenkeel.model.canonical import short_id
from evenkeel.model.errors import InputError
from evenkeel.model.plan import Plan
from support import small_plan
from support.small_plan import CURVE, POOL, REPLAY

Document = dict[str, Any]


def document(**changes: Any) -> Document:
    plan = small_plan.plan(**({"curve": CURVE, "pools": (POOL,), "counterfactual": (REPLAY,)} | changes))
    decoded: Document = json.loads(plan.encode())
    return decoded


def test_plan_survives_its_document_byte_for_byte() -> None:
    plan = small_plan.plan(settings={"tolerance": 0.4}, curve=CURVE, pools=(POOL,), counterfactual=(REPLAY,))
    read = Plan.from_json(json.loads(plan.encode()), "plan.json")
    assert read == plan
    assert read.encode() == plan.encode()


def test_figures_that_a_plan_by_hand_does_not_have_are_empty_objects() -> None:
    plan = small_plan.plan(settings={}, bounds=None, gap=None, violations=None)
    fields = json.loads(plan.encode())
    assert (fields["bounds"], fields["gap"], fields["violations"]) == ({}, {}, {})
    assert Plan.from_json(fields, "plan.json") == plan


@pytest.mark.parametrize(
    ("spoil", "place"),
    [
        (lambda d: d["balance"]["after"]["cpu"].update(max="full"), "balance.after.cpu.max = 'full' is of the wrong"),
        (lambda d: d["balance"]["after"].update(disk={}), "'disk' is not a valid Resource"),
        (lambda d: d["balance"].pop("before"), "balance.before is missing"),
        (lambda d: d["bounds"].pop("moves"), "bounds.moves is missing"),
        (lambda d: d["bounds"].update(moves=1.5), "bounds.moves = 1.5 is of the wrong type"),
        (lambda d: d["gap"].update(comment="none"), "gap.comment is unknown"),
        (lambda d: d["disruption"]["waves"][0].pop("wave"), "disruption.waves[0].wave is missing"),
        (lambda d: d["violations"].update(after=None), "violations.after = None is not an object"),
        (lambda d: d["curve"][1].update(worst=None), "curve[1].worst = None is of the wrong type"),
        (lambda d: d["pools"][0].update(limited_by="magic"), "'magic' is not a valid PoolLimit"),
        (lambda d: d["pools"][0].update(advice="split it"), "pools[0].advice = 'split it' is of the wrong type"),
        (lambda d: d["counterfactual"][0].update(strategy=7), "counterfactual[0].strategy = 7 is of the wrong type"),
        (lambda d: d.update(step_counts={"transfers": 1}), "step_counts.splits is missing"),
        (lambda d: d.update(pools={}), "pools = {} is of the wrong type"),
    ],
)
def test_document_whose_figures_do_not_fit_is_refused_with_the_place(
    spoil: Callable[[Document], Any], place: str
) -> None:
    fields = document()
    spoil(fields)
    with pytest.raises(InputError) as refused:
        Plan.from_json(fields, "file:///lake/plan.json")
    assert str(refused.value).startswith("file:///lake/plan.json is not a plan (")
    assert place in str(refused.value)


def test_step_carries_its_load_in_the_order_of_the_resources() -> None:
    step = small_plan.step(cpu_millipercent=1, throughput_in_bytes_per_s=20, throughput_out_bytes_per_s=300)
    assert step.load == (1, 20, 300)
    assert step.moved_bytes_per_s == 320


def test_short_id_is_enough_to_name_a_plan() -> None:
    assert short_id("0123456789abcdef" * 4) == "0123456789ab"
