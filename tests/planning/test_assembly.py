"""One document from the plans of all pools: what every plan says, and what an empty one says."""

from __future__ import annotations

import dataclasses
import json

import pytest

from evenkeel.model.figures import StrategyReplay
from evenkeel.model.load import Resource
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import assemble
from evenkeel.planning.pool.plan import PoolPlan
from support.clusters import Cluster, broker, bundles, context, no_bundles, plan
from support.moves import NO_DIAGNOSIS, flat, move, pool_plan
from support.moves import broker as loaded

PAIR = (broker("b1"), broker("b2"))


@pytest.mark.parametrize(
    ("cluster", "sentence"),
    [
        (Cluster((), no_bundles()), "the snapshot has no broker and no owned bundle: there is nothing to balance"),
        (Cluster(PAIR, no_bundles()), "the brokers own no bundle: there is nothing to move"),
        (Cluster(PAIR, bundles({"b1": [("t/a", 0), ("t/b", 0)]})), "no bundle carries any load"),
        (Cluster((broker("b1"),), bundles({"b1": [("t/a", 500)]})), "no pool has more than one broker"),
        (Cluster(PAIR, bundles({"b1": [("t/a", 50)], "b2": [("t/b", 50)]})), "every broker is inside its band"),
        (
            Cluster(tuple(broker(name, limits=(0, 0, 0)) for name in ("b1", "b2")), bundles({"b1": [("t/a", 50)]})),
            "no broker has a known limit",
        ),
    ],
    ids=["empty cluster", "no bundles", "zero load", "one broker", "balanced", "no limits"],
)
def test_empty_plan_says_why_there_is_nothing_to_do(cluster: Cluster, sentence: str) -> None:
    planned = plan(cluster)
    assert planned.steps == []
    assert [(row.scope, row.rule) for row in planned.rejections] == [("plan", "nothing-to-do")]
    assert sentence in planned.rejections[0].detail


def test_plan_with_steps_needs_no_excuse() -> None:
    planned = assemble([pool_plan([loaded("a", 800), loaded("b", 0)], [move("a>b", 300)])], context(Settings()))
    assert planned.rejections == []


def test_plan_describes_each_pool_as_it_ends_up_with_the_moves_that_were_kept() -> None:
    moves = [move("a>b", 100), move("a>b", 100)]
    diagnosis = dataclasses.replace(NO_DIAGNOSIS, binding_resource=Resource.CPU)
    pool = pool_plan([loaded("a", 700), loaded("b", 0)], moves, bundles=40, diagnosis=diagnosis)
    plan = assemble([pool], context(Settings(max_steps=1))).plan
    assert json.loads(plan.encode())["pools"] == [
        {
            "pool": "pool",
            "brokers": 2,
            "bundles": 40,
            "moves": 1,
            "bound_moves": 2,
            "gap": 0.5,
            "binding_resource": "cpu",
            "lowest_peak": {},
            "peak_before": {"cpu": 0.7, "bandwidth_in": 0.7, "bandwidth_out": 0.7},
            "peak_after": {"cpu": 0.6, "bandwidth_in": 0.6, "bandwidth_out": 0.6},
            "reaches_band": False,
            "limited_by": "budget",
            "policies": [],
            "advice": ["wider budgets: they, or the order of the steps, leave out 1 move of the 2 of this pool"],
        }
    ]


def test_plan_is_marked_where_a_deadline_cut_one_pool_short() -> None:
    whole, cut_short = pool_plan([loaded("a", 1)]), pool_plan([loaded("b", 1)], truncated=True)
    assert not assemble([whole], context(Settings())).plan.truncated
    assert assemble([whole, cut_short], context(Settings())).plan.truncated


def test_plan_carries_what_pulsar_would_have_done() -> None:
    replay = StrategyReplay("transfer-shedder", "no broker is overloaded", moves=3)
    assert assemble([], context(Settings(), counterfactual=[replay])).plan.counterfactual == (replay,)


def test_pool_plan_survives_its_json_form() -> None:
    one = dataclasses.replace(loaded("a", 700, topics=9), largest=((5, 3), (), (8,)))
    diagnosis = dataclasses.replace(NO_DIAGNOSIS, lowest_peak={Resource.CPU: 0.5}, advice=("split it",))
    made = pool_plan([one, loaded("b", 0)], [move("a>b")], diagnosis=diagnosis, truncated=True)
    assert PoolPlan.from_json(made.to_json()) == made


def test_move_into_a_broker_that_other_pools_fill_is_left_out() -> None:
    # b is in the band with its own pool's load, but bundles of another pool stay on it
    brokers = [loaded("a", 600), loaded("b", 400)]
    guests = dataclasses.replace(pool_plan([loaded("b", 300)]), pool="other")
    guests = dataclasses.replace(
        guests, brokers=tuple(dataclasses.replace(one, is_member=False, band_limit=flat(0)) for one in guests.brokers)
    )
    planned = assemble([pool_plan(brokers, [move("a>b", 90)]), guests], context(Settings()))
    assert planned.steps == []
    assert "foreign-load" in {row.rule for row in planned.rejections}


def test_document_does_not_depend_on_the_order_of_the_pools() -> None:
    first = pool_plan([loaded("a", 800), loaded("b", 0)], [move("a>b", 100)])
    second = dataclasses.replace(pool_plan([loaded("c", 800), loaded("d", 0)], [move("c>d", 50)]), pool="second")
    ways = [assemble(pools, context(Settings())) for pools in ([first, second], [second, first])]
    assert ways[0] == ways[1]
    assert len(ways[0].steps) == 2
