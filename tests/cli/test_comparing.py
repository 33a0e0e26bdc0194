"""`evenkeel diff` and what `evenkeel show` says of a plan beyond its steps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from evenkeel.adapters.lake import Lake
from evenkeel.adapters.plans import PlanStore
from evenkeel.model.plan import Step, digest_rows
from support import small_plan
from support.commands import evenkeel
from support.small_cluster import B01, B02, B03
from support.small_plan import FIRST, step

OTHER = "shop/orders/0x40000000_0x80000000"
CURVE = [
    {"moves": 0, "sessions": 0, "client_seconds": 0.0, "worst": 2.0},
    {"moves": 1, "sessions": 10, "client_seconds": 7.0, "worst": 1.333},
]
POOL = {"pool": B01, "reaches_band": False, "limited_by": "giant-bundle", "advice": ["splitting [shop]/big helps"]}
PEER = {
    "strategy": "threshold-shedder",
    "unloads": 9,
    "repeat_unloads": 3,
    "worst_after": 1.5,
    "client_seconds": 63.5,
    "stopped_because": "all are alike",
}


def store(lake: Path, steps: Sequence[Step], **changes: Any) -> str:
    """Store a plan with these steps; answers its id."""
    brokers = small_plan.balances()
    plan = small_plan.plan(
        steps_sha256=digest_rows(steps),
        rejections_sha256=digest_rows([]),
        brokers_sha256=digest_rows(brokers),
        **changes,
    )
    PlanStore(Lake(str(lake))).write(plan, steps, [], brokers)
    return plan.plan_id


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    return tmp_path / "lake"


def test_diff_names_what_moves_elsewhere_and_puts_figures_side_by_side(lake: Path) -> None:
    first = store(lake, [step()])
    second = store(lake, [step(destination=B02), step(order=1, bundle=OTHER)], settings={"tolerance": 0.1})
    answer = evenkeel("diff", first[:12], second[:12], "--lake", lake)
    assert answer.code == 0
    for expected in (
        first,
        second,
        "tolerance",
        "only in the second: 1",
        OTHER,
        f"{B01} → {B02}  instead of  {B01} → {B03}",
    ):
        assert expected in answer.out
    assert "+10" in answer.out, "sessions"


def test_diff_is_one_json_document_and_takes_uris(lake: Path) -> None:
    first, second = store(lake, [step()]), store(lake, [step(destination=B02)])
    uris = [f"{lake.as_uri()}/plans/{plan_id}" for plan_id in (first, second)]
    document = evenkeel("diff", *uris, "--json").document
    assert (document["first"], document["second"]) == (first, second)
    assert [row["bundle"] for row in document["elsewhere"]] == [FIRST]
    assert document["has_same_steps"] is False


def test_diff_of_a_plan_with_itself_says_so(lake: Path) -> None:
    plan_id = store(lake, [step()])
    answer = evenkeel("diff", plan_id, plan_id, "--lake", lake)
    assert answer.code == 0
    assert "they are the same plan" in answer.out


def test_plans_of_two_clusters_are_refused_with_a_sentence(lake: Path) -> None:
    first, second = store(lake, [step()]), store(lake, [step()], cluster="other")
    answer = evenkeel("diff", first, second, "--lake", lake)
    assert (answer.code, answer.out) == (1, "")
    assert answer.err.count("\n") == 1
    assert "the first plan is of cluster 'fleet', the second of cluster 'other': compare plans of one" in answer.err


def test_show_tells_curve_pools_and_what_pulsar_would_have_done(lake: Path) -> None:
    plan_id = store(lake, [step()], curve=CURVE, pools=[POOL], counterfactual=[PEER])
    answer = evenkeel("show", plan_id, "--lake", lake)
    assert answer.code == 0
    for expected in (
        "balance against moves",
        "1.333",
        "pools: 0 of 1 inside the band",
        "limited by giant-bundle",
        "splitting [shop]/big helps",
        "threshold-shedder",
        "63.5",
        "stops: all are alike",
    ):
        assert expected in answer.out
    document = evenkeel("show", plan_id, "--lake", lake, "--json").document
    assert (document["curve"], document["pools"], document["counterfactual"]) == (CURVE, [POOL], [PEER])


def test_show_of_a_plan_without_them_is_quiet_about_them(lake: Path) -> None:
    answer = evenkeel("show", store(lake, [step()]), "--lake", lake)
    assert answer.code == 0
    assert "balance against moves" not in answer.out
    assert "pools:" not in answer.out
    assert "Pulsar itself" not in answer.out
