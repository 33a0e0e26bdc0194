"""Why a step, why not another, what a pool lacks: every sentence is checked against the cluster it speaks of."""

from __future__ import annotations

import dataclasses
import json
import random
import sys
from collections import Counter

import numpy as np
import pytest

from evenkeel.model.figures import PoolFigures
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.cluster.cluster_brokers import collect_brokers, collect_moves, loads_after
from evenkeel.planning.cluster.move_reasons import explain_moves
from evenkeel.planning.cluster.selection import Selection
from evenkeel.planning.explaining.bundle_ranks import Grounds, rank_bundles
from evenkeel.planning.explaining.refusals import Refusal, find_refusal
from evenkeel.planning.problem.band import find_band
from evenkeel.planning.problem.columns import Ints
from evenkeel.planning.problem.problem import PoolProblem, pool_problems
from evenkeel.planning.search.placement import Placement
from support.clusters import Cluster, broker, bundles, isolation, no_bundles, plan, random_cluster
from support.moves import broker as loaded
from support.moves import move, pool_plan

PAIR = (broker("b1"), broker("b2"))
MODULAR_PAIR = tuple(dataclasses.replace(row, load_manager="modular") for row in PAIR)
TRIO = (*PAIR, broker("b3"))
SEEDS = range(6)
# It makes about twenty; a loop over the 100 brokers would make hundreds.
MOST_CALLS_A_REASON = 60


def details(planned: PlannedCluster, rule: str, scope: str) -> list[str]:
    return [row.detail for row in planned.rejections if (row.rule, row.scope) == (rule, scope)]


def only_pool(planned: PlannedCluster) -> PoolFigures:
    (pool,) = planned.plan.pools
    return pool


def random_moves(seed: int) -> tuple[Placement, Ints]:
    """A random pool of which one broker owns half, and moves that the rules allow."""
    chance, cluster, settings = random.Random(seed), random_cluster(seed, n_brokers=14), Settings()
    drawn = max(_problems(cluster, settings), key=lambda problem: int(problem.can_receive.sum()))
    owners = cluster.bundles.owner.copy()
    owners[::2] = drawn.broker_ids[int(np.argmax(drawn.can_receive & (drawn.limit > 0).all(axis=1)))]
    crowded = dataclasses.replace(cluster, bundles=dataclasses.replace(cluster.bundles, owner=owners))
    problem = next(problem for problem in _problems(crowded, settings) if problem.pool == drawn.pool)
    placement = Placement(problem, find_band(problem, settings), settings)
    for row in range(0, len(problem.bundles), 3):
        homes = np.flatnonzero(placement.candidates(row)).tolist()
        if homes and placement.free[row]:
            placement.move(row, chance.choice(homes))
    return placement, np.flatnonzero(placement.owner != problem.owner)


def _problems(cluster: Cluster, settings: Settings) -> list[PoolProblem]:
    return list(pool_problems(cluster.brokers, cluster.bundles, cluster.policies, settings))


# why this bundle, and why there


def test_reason_counts_the_rivals_and_says_that_nobody_else_has_room() -> None:
    # b1: 120 60 60 | b2: nothing | b3: 120; the band ends at 126
    placed = {"b1": [("t/a", 120), ("t/b", 60), ("t/c", 60)], "b3": [("t/d", 120)]}
    (step,) = plan(Cluster(TRIO, bundles(placed)), Settings(objective="moves")).steps
    assert step.reason == (
        "b1:8080 uses 24.0 % of its cpu limit, 11.4 points above the end of its band (12.6 %), and 12.0 % after this "
        "plan; this bundle uses 12.0 % of that limit and has 10 sessions: none of the 3 there that may move is larger; "
        "2 brokers are eligible, only b2:8080 has room: from 0.0 % to 12.0 % of its cpu limit, where the band ends at "
        "12.6 %"
    )


def test_reason_says_that_the_new_owner_ends_least_full() -> None:
    # b1: 60 60 60 | b2: 20 | b3: nothing; the band is wide enough for both of them
    placed = {"b1": [("t/a", 60), ("t/b", 60), ("t/c", 60)], "b2": [("t/d", 20)]}
    (step,) = plan(Cluster(TRIO, bundles(placed)), Settings(tolerance=1.0)).steps
    assert "2 brokers are eligible, 2 have room; b3:8080 ends up least loaded: from 0.0 % to" in step.reason


def test_reason_speaks_of_what_the_objective_asks_for() -> None:
    # Two bundles would do; the one with fewer sessions goes.
    columns = bundles({"b1": [("t/dear", 200), ("t/cheap", 195)]})
    columns = dataclasses.replace(columns, sessions=np.array([500, 5]))
    planned = plan(Cluster(PAIR, columns), Settings(objective="disruption"))
    assert [step.bundle.split("/")[1] for step in planned.steps] == ["cheap"]
    assert (
        "has 5 sessions: none of the 2 there that may move has fewer sessions for its load" in planned.steps[0].reason
    )


def test_reason_of_a_repair_names_the_rule() -> None:
    brokers = (broker("b1", state="Stopping"), broker("b2"))
    planned = plan(Cluster(brokers, bundles({"b1": [("t/a", 10)]})))
    assert planned.steps[0].reason.startswith(
        "b1:8080 is Stopping and is being emptied; b2:8080 is the only other eligible broker"
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_ranks_among_rivals_are_what_counting_gives(seed: int) -> None:
    print(f"seed {seed}")
    placement, rows = random_moves(seed)
    problem = placement.problem
    rivals = rank_bundles(placement, rows)
    assert rivals.helps.any(), "the cluster gives no move to look at"
    for place, row in enumerate(rows.tolist()):
        if not rivals.helps[place]:
            continue
        kind = int(rivals.resource[place])
        mine = [
            r for r in range(len(problem.owner)) if problem.owner[r] == problem.owner[row] and problem.mobility[r] == 0
        ]
        own = problem.load[row, kind]
        assert rivals.may_move[place] == len(mine)
        assert rivals.larger[place] == sum(problem.load[r, kind] > own for r in mine)
        carrying = [r for r in mine if problem.load[r, kind] > 0]
        cheaper = sum(
            problem.sessions[r] / problem.load[r, kind] < problem.sessions[row] / max(own, 1) for r in carrying
        )
        assert rivals.cheaper[place] == cheaper


def test_two_thousand_reasons_take_a_few_calls_each() -> None:
    brokers = [loaded(f"b{number:03}", 400) for number in range(100)]
    moves = [move(f"b{number % 50:03}>b{50 + number % 50:03}", 1) for number in range(2_000)]
    made = pool_plan(brokers, moves, receivers=(tuple(range(100)),))
    grounds = Grounds("", 0, 40, 3, 20, receivers=0)
    made = dataclasses.replace(made, moves=tuple(dataclasses.replace(m, grounds=grounds) for m in made.moves))
    by_id, settings = collect_brokers([made]), Settings(max_steps=10_000)
    pooled = collect_moves([made], settings)
    after = loads_after(by_id, pooled)
    calls = Counter[str]()
    sys.setprofile(lambda frame, event, detail: calls.update([event]))
    try:
        reasons = explain_moves([made], by_id, {}, Selection((tuple(pooled),), ()), after, settings)
    finally:
        sys.setprofile(None)
    assert len(reasons) == 2_000
    assert calls["call"] + calls["c_call"] < MOST_CALLS_A_REASON * len(reasons)
    assert all("99 brokers are eligible" in reason for reason in reasons.values())


# why a hot bundle was left alone


def test_bundle_that_no_broker_could_carry_is_too_big() -> None:
    # b1: 500 | b2: 10; the band ends at 267
    planned = plan(Cluster(PAIR, bundles({"b1": [("t/huge", 500)], "b2": [("t/b", 10)]})))
    (detail,) = details(planned, "too-big", "bundle")
    assert "it needs 50.0 % of b2:8080's cpu limit, and that broker may be filled to 26.7 % at most" in detail


def test_topic_limit_is_named() -> None:
    cluster = Cluster(PAIR, bundles({"b1": [("t/a", 200), ("t/b", 200)]}))
    planned = plan(cluster, Settings(broker_max_topics=1))
    assert planned.steps == []
    assert details(planned, "topic-limit", "bundle")[0].endswith(
        "with its 1 topic the 1 other broker that may own it would reach the limit of 1 topic"
    )


def test_anti_affinity_is_named_with_its_group() -> None:
    # one bundle of the group each: neither may join the other
    policies = Policies(anti_affinity={"t/a": "G"})
    planned = plan(Cluster(PAIR, bundles({"b1": [("t/a", 200)], "b2": [("t/a", 10)]}), policies))
    assert planned.steps == []
    assert (
        "it would crowd its anti-affinity group g more than it is now" in details(planned, "anti-affinity", "bundle")[0]
    )


def test_rules_that_refuse_only_together_are_all_named() -> None:
    # b1 (stopping, zone 1): 100 of the group | b2 b3: full | b4 (zone 2): nothing, but b5 there has one of the group
    brokers = (
        broker("b1", state="Stopping", domain="z1"),
        *(broker(name, domain="z1") for name in ("b2", "b3")),
        broker("b4", domain="z2"),
        broker("b5", domain="z2"),
    )
    placed = {"b1": [("t/a", 100)], "b2": [("t/b", 840)], "b3": [("t/b", 840)], "b5": [("t/c", 1), ("t/b", 840)]}
    policies = Policies(anti_affinity={"t/a": "g", "t/c": "g"}, excluded_namespaces=frozenset({"t/b", "t/c"}))
    planned = plan(Cluster(brokers, bundles(placed), policies))
    assert planned.steps == []
    assert details(planned, "anti-affinity", "bundle") == [
        "b1:8080 may not keep the bundle, but of the 4 other brokers that may own it, 2 would crowd its anti-affinity "
        "group g more than it is now and 2 would go above the overload line"
    ]
    assert details(planned, "overload-line", "bundle") == []


def test_version_filter_is_named_whichever_manager_compares() -> None:
    # b1: 100 100 | b2 (older): nothing
    brokers = [dataclasses.replace(broker(name), version=v) for name, v in (("b1", "4.1.0"), ("b2", "4.0.0"))]
    for manager in ("modular", "extensible"):
        of_manager = tuple(dataclasses.replace(row, load_manager=manager) for row in brokers)
        cluster = Cluster(of_manager, bundles({"b1": [("t/a", 100), ("t/a", 100)], "b2": [("t/a", 1)]}))
        (problem,) = _problems(cluster, Settings(prefer_later_versions=True))
        placement = Placement(problem, find_band(problem, Settings()), Settings())
        assert find_refusal(placement, 0, placement.receive_cap) == Refusal(
            "version-filter", "the 1 other broker that may own it would have to run the latest version"
        )


def test_draining_neighbours_are_named() -> None:
    # t/a may live on b1, which is gone, and b2, which is emptied itself
    brokers = (broker("b1", state="Stopping"), broker("b2", state="Stopping"), broker("b3"))
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b1", "b2"]),))
    planned = plan(Cluster(brokers, bundles({"b1": [("t/a", 10)], "b3": [("t/b", 10)]}), policies))
    assert planned.steps == []
    assert details(planned, "draining", "bundle") == [
        "b1:8080 may not keep the bundle, but the 1 other broker that may own it must be emptied (Stopping)"
    ]
    assert details(planned, "draining", "pool") == [
        "no broker of the pool may receive a bundle (2 Stopping), so that none can be moved"
    ]


def test_version_filter_is_named() -> None:
    # t/a has to leave b1; b2, the other one that it may use, is older than b3
    versions = {"b1": "4.0.0", "b2": "4.0.0", "b3": "4.1.0"}
    brokers = tuple(
        dataclasses.replace(broker(name, state="Stopping" if name == "b1" else "Active"), version=version)
        for name, version in versions.items()
    )
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b1", "b2"]), isolation("q", ["t/b"], ["b[123]"])))
    cluster = Cluster(brokers, bundles({"b1": [("t/a", 10)], "b3": [("t/b", 10)]}), policies)
    planned = plan(cluster, Settings(prefer_later_versions=True))
    assert planned.steps == []
    assert details(planned, "version-filter", "bundle") == [
        "b1:8080 may not keep the bundle, but the 1 other broker that may own it would have to run the latest version"
    ]
    assert len(plan(cluster).steps) == 1, "without the filter it moves"


def test_bundle_in_flight_is_named() -> None:
    columns = bundles({"b1": [("t/a", 200), ("t/b", 200)]})
    columns = dataclasses.replace(columns, state=np.array(["Releasing", "Releasing"], dtype=object))
    planned = plan(Cluster(PAIR, columns))
    assert planned.steps == []
    assert len(details(planned, "in-flight", "bundle")) == 2


# policies that contradict each other or the cluster


def test_policy_whose_primaries_are_gone_is_told_with_what_becomes_of_its_namespaces() -> None:
    policies = Policies(
        isolation=(isolation("lost", ["t/a"], ["nowhere"]), isolation("saved", ["t/b"], ["nowhere"], ["b2"]))
    )
    planned = plan(Cluster(PAIR, bundles({"b1": [("t/a", 1)], "b2": [("t/b", 1)]}), policies))
    lost, saved = details(planned, "policy-without-brokers", "plan")
    assert lost.endswith("match no live broker, it has no secondaries: no broker may own t/a")
    assert saved.endswith("match no live broker, its secondaries alone serve t/b")


def test_first_of_two_policies_wins_and_the_plan_says_so() -> None:
    policies = Policies(isolation=(isolation("wide", ["t/.*"], ["b1"]), isolation("narrow", ["t/a"], ["b2"])))
    planned = plan(Cluster(PAIR, bundles({"b1": [("t/a", 1), ("t/b", 1)]}), policies))
    assert planned.steps == []
    assert details(planned, "policy-overlap", "plan") == [
        "isolation policies wide and narrow both name t/a: Pulsar goes by the first in its map, wide"
    ]


def test_policies_that_reserve_every_broker_are_told() -> None:
    policies = Policies(isolation=(isolation("greedy", ["t/a"], [".*"]),))
    planned = plan(Cluster(PAIR, bundles({"b1": [("t/a", 1), ("t/b", 1)]}), policies))
    (detail,) = details(planned, "no-shared-broker", "plan")
    assert detail == ("isolation policies (greedy) reserve every live broker: none may own t/b, which no policy names")
    assert details(planned, "no-eligible-broker", "pool") == [
        "every live broker is reserved, so that none may own t/b: 1 bundle can go nowhere"
    ]


def test_broker_in_two_failure_domains_is_told() -> None:
    policies = Policies(failure_domains={"z1": ("b1:8080",), "z2": ("b1:8080", "b2:8080")})
    planned = plan(Cluster(PAIR, bundles({"b1": [("t/a", 1)], "b2": [("t/b", 1)]}), policies))
    assert details(planned, "failure-domain-overlap", "plan") == [
        "the failure domains z1, z2 all list b1:8080; it is counted in z2"
    ]


def test_policies_in_order_are_not_mentioned() -> None:
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b1"]),), failure_domains={"z1": ("b1:8080",)})
    planned = plan(Cluster(PAIR, bundles({"b1": [("t/a", 1)], "b2": [("t/b", 1)]}), policies))
    assert {row.rule for row in planned.rejections} == {"nothing-to-do"}


# what binds a pool, and what would help


def test_pool_inside_its_band_needs_nothing() -> None:
    planned = plan(Cluster(PAIR, bundles({"b1": [("t/a", (50, 200, 10))], "b2": [("t/b", (50, 200, 10))]})))
    pool = only_pool(planned)
    assert (pool.binding_resource, pool.reaches_band, pool.limited_by) == ("bandwidth_in", True, "nothing")
    assert pool.peak_after == {"cpu": 0.05, "bandwidth_in": 0.2, "bandwidth_out": 0.01}
    assert pool.advice == (
        "nothing: every broker is inside its band; the fullest is b2:8080, at 20.0 % of its bandwidth in limit, and "
        "the load may grow by 325 % before it reaches the overload line of 85.0 %",
    )


def test_full_pool_is_told_how_many_brokers_it_lacks() -> None:
    # 1800 on two brokers of 1000: 90 %; on three: 60 %
    placed = {name: [(f"t/{name}{i}", 100) for i in range(9)] for name in ("b1", "b2")}
    pool = only_pool(plan(Cluster(PAIR, bundles(placed))))
    assert pool.limited_by == "capacity"
    assert pool.advice == (
        "one more broker of the median size lowers the lowest reachable peak of cpu from 90.0 % to 60.0 % of "
        "the limits",
        "it takes 1 broker of that size to get below the overload line of 85.0 %",
    )


def test_narrow_policy_is_told_what_one_more_broker_would_do() -> None:
    # t/a fills b1, which is all that it may use; the others are almost idle
    brokers = tuple(broker(f"b{i}") for i in range(1, 5))
    placed = {"b1": [("t/a", 90)] * 10, "b2": [("t/b", 100)], "b3": [("t/b", 100)]}
    policies = Policies(isolation=(isolation("narrow", ["t/a"], ["b1"]), isolation("wide", ["t/b"], ["b[1-4]"])))
    pool = only_pool(plan(Cluster(brokers, bundles(placed), policies)))
    assert pool.limited_by == "policies"
    assert pool.advice == (
        "widening isolation policy narrow by one broker of the median size: on the 1 broker of its own, "
        "cpu is at 90.0 % of the limits at best; with one more it is at 45.0 %",
        "the pool as a whole has room: spread evenly, its cpu is at 27.5 % of the limits",
    )


@pytest.mark.parametrize(
    ("cluster", "settings", "limited_by", "advice"),
    [
        (
            Cluster(PAIR, bundles({"b1": [("t/huge", 500)], "b2": [("t/b", 10)]})),
            Settings(),
            "giant-bundle",
            "splitting t/huge/0x00000000_0x00000001: it takes 50.0 % of b1:8080's cpu limit, where the band",
        ),
        (
            Cluster(
                PAIR, bundles({"b1": [("t/x", 200), ("t/x", 200)]}), Policies(excluded_namespaces=frozenset({"t/x"}))
            ),
            Settings(),
            "excluded-namespaces",
            "letting t/x move: bundles that may not move take 40.0 % of b1:8080's cpu limit, where the band",
        ),
        (
            Cluster(TRIO, bundles({"b1": [("t/a", 80), ("t/b", 80)], "b2": [("t/c", 80)], "b3": [("t/d", 80)]})),
            Settings(),
            "bundle-sizes",
            "a tolerance of 0.51 instead of 0.05 would be reached",
        ),
        (
            Cluster(PAIR, bundles({"b1": [("t/a", 200), ("t/b", 200)]})),
            Settings(max_steps=0),
            "budget",
            "raising the budget max_steps = 0: the moves of this pool alone take 1",
        ),
        (
            # As the step itself is priced: on a modular cluster no client gains by a transfer.
            Cluster(MODULAR_PAIR, bundles({"b1": [("t/a", 200), ("t/b", 200)]})),
            Settings(max_client_seconds=1),
            "budget",
            "raising the budget max_client_seconds = 1: the moves of this pool alone take 39",
        ),
        (
            Cluster(tuple(broker(name, state="Stopping") for name in ("b1", "b2")), bundles({"b1": [("t/a", 1)]})),
            Settings(),
            "no-broker",
            "an Active broker in this pool",
        ),
        (
            Cluster(tuple(broker(name, limits=(0, 0, 0)) for name in ("b1", "b2")), bundles({"b1": [("t/a", 1)]})),
            Settings(),
            "no-broker",
            "a capacity table in the settings",
        ),
    ],
    ids=[
        "oversized bundle",
        "excluded",
        "coarse bundles",
        "no budget",
        "few client-seconds",
        "all draining",
        "no limits",
    ],
)
def test_pool_outside_its_band_is_told_why(cluster: Cluster, settings: Settings, limited_by: str, advice: str) -> None:
    pool = only_pool(plan(cluster, settings))
    assert (pool.reaches_band, pool.limited_by) == (False, limited_by)
    assert advice in pool.advice[0]


def test_pool_whose_moves_are_cut_by_a_budget_speaks_of_what_is_left() -> None:
    # Two moves would do for tenant t; only one is allowed, so b1 stays at 40 %.
    cluster = Cluster(TRIO, bundles({"b1": [("t/a", 200), ("t/b", 200), ("t/c", 200)]}))
    pool = only_pool(plan(cluster, Settings(tenant_max_steps=1)))
    assert (pool.moves, pool.reaches_band, pool.limited_by) == (1, False, "budget")
    assert pool.peak_after == dict.fromkeys(("cpu", "bandwidth_in", "bandwidth_out"), 0.4)
    assert pool.advice == ("wider budgets: they, or the order of the steps, leave out 1 move of the 2 of this pool",)
    whole = only_pool(plan(cluster))
    assert (whole.moves, whole.reaches_band, whole.limited_by) == (2, True, "nothing")


@pytest.mark.parametrize(
    ("cluster", "limited_by"),
    [
        (Cluster(PAIR, bundles({"b1": [("t/a", 0), ("t/b", 0)]})), "no-load"),
        (Cluster((broker("b1"),), bundles({"b1": [("t/a", 300), ("t/b", 5)]})), "one-broker"),
        (Cluster((broker("b1"),), no_bundles()), "nothing"),
    ],
    ids=["no load", "one broker", "no bundles"],
)
def test_pool_with_nothing_to_balance_says_so(cluster: Cluster, limited_by: str) -> None:
    planned = plan(cluster)
    pool = only_pool(planned)
    assert (planned.steps, pool.reaches_band, pool.limited_by) == ([], True, limited_by)
    assert pool.advice


@pytest.mark.parametrize("seed", range(3))
def test_summaries_are_plain_values_and_the_same_for_any_order_of_rows(seed: int) -> None:
    print(f"seed {seed}")
    cluster = random_cluster(seed, n_brokers=5, n_bundles=40)
    first, second = plan(cluster).plan.pools, plan(cluster.shuffled(seed)).plan.pools
    assert first == second
    assert json.dumps([dataclasses.asdict(pool) for pool in first], allow_nan=False)
