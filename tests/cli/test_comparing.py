"""`evenkeel diff` and what `evenkeel show` says of a plan beyond its steps."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.plan import Step, digest_rows
from support import small_plan
from support.commands import evenkeel
from support.small_cluster import B01, B02, B03
from support.small_plan import CURVE, FIRST, POOL, REPLAY, step

OTHER = "shop/orders/0x40000000_0x80000000"


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
    plan_id = store(lake, [step()], curve=CURVE, pools=(POOL,), counterfactual=(REPLAY,))
    answer = evenkeel("show", plan_id, "--lake", lake)
    assert answer.code == 0
    for expected in (
        "balance against moves",
        "1.333",
        "1 move.",
        "1 of 1 pool stays outside the band: a bundle is too big for any broker.",
        "pools: 0 of 1 inside the band",
        "limited by giant-bundle",
        "splitting [shop]/big lets the band be reached",
        "threshold-shedder",
        "64",
        "stops: no broker is 10 points above the mean",
    ):
        assert expected in answer.out
    document = evenkeel("show", plan_id, "--lake", lake, "--json").document
    shown = (document["curve"], document["pools"], document["counterfactual"])
    assert shown == tuple(json.loads(json.dumps([asdict(row) for row in rows])) for rows in (CURVE, [POOL], [REPLAY]))


def test_show_of_a_plan_without_them_is_quiet_about_them(lake: Path) -> None:
    answer = evenkeel("show", store(lake, [step()]), "--lake", lake)
    assert answer.code == 0
    assert "balance against moves" not in answer.out
    assert "pools:" not in answer.out
    assert "Pulsar itself" not in answer.out
