"""Small clusters with a one-line picture each, and what the planner must make of them."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from evenkeel.model.figures import StepCounts
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.assembly import PlannedCluster
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, broker, bundles, destinations, isolation, no_bundles, plan

PAIR = (broker("b1"), broker("b2"))


def legal_plan(cluster: Cluster, settings: Settings | None = None) -> PlannedCluster:
    settings = settings or Settings()
    planned = plan(cluster, settings)
    assert find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, settings) == []
    return planned


def rules(planned: PlannedCluster) -> set[str]:
    return {rejection.rule for rejection in planned.rejections}


def test_one_large_bundle_moves_instead_of_two_small_ones() -> None:
    # b1: 200 100 100 | b2: nothing
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [("t/big", 200), ("t/a", 100), ("t/b", 100)]})))
    assert destinations(planned) == {"t/big": ("b1", "b2")}
    assert planned.plan.bounds.moves == 1
    assert planned.plan.gap.moves == 1.0
    assert planned.plan.balance.after["cpu"].max_over_mean == 1.0
    # half of the sessions know transfers, half are consumers and catch up
    assert planned.steps[0].disruption_client_ms == 5 * 665 + 5 * 2_945 + 5 * 1_152


def test_reason_tells_why_this_bundle_and_why_there() -> None:
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [("t/a", 200), ("t/b", 200)]})))
    assert planned.steps[0].reason == (
        "b1:8080 uses 40.0 % of its cpu limit, 19.0 points above the end of its band (21.0 %), and 20.0 % after this "
        "plan; this bundle uses 20.0 % of that limit and has 10 sessions: none of the 2 there that may move is larger; "
        "b2:8080 is the only other eligible broker: from 0.0 % to 20.0 % of its cpu limit, where the band ends at "
        "21.0 %"
    )


def test_balanced_cluster_is_left_alone() -> None:
    # b1: 100 | b2: 104
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [("t/a", 100)], "b2": [("t/b", 104)]})))
    assert planned.steps == []
    assert planned.plan.gap.moves == 1.0


def test_bound_of_the_peak_stays_below_what_is_reached_where_load_is_next_to_nothing() -> None:
    # 2 × 1,400 on b1 of two brokers that could carry 1,000,000,000 each
    huge = (broker("b1", 1_000_000), broker("b2", 1_000_000))
    cluster = Cluster(huge, bundles({"b1": [("t/a", 1_400), ("t/b", 1_400)]}))
    planned = legal_plan(cluster, Settings(min_utilisation=0.0))
    assert planned.plan.balance.after["cpu"].max_over_mean == 1.0
    assert planned.plan.bounds.max_over_mean["cpu"] == 1.0


def test_resource_without_weight_is_left_out() -> None:
    # b1: 2 × 100 | b2: nothing
    cluster = Cluster(PAIR, bundles({"b1": [("t/a", 100), ("t/b", 100)]}))
    assert "of its cpu" in legal_plan(cluster).steps[0].reason
    without_cpu = legal_plan(cluster, Settings(cpu_resource_weight=0.0))
    assert "of its bandwidth in" in without_cpu.steps[0].reason
    assert without_cpu.plan.balance.before["cpu"].max == 0.0
    weights = {"cpu_resource_weight": 0.0, "bandwidth_in_resource_weight": 0.0, "bandwidth_out_resource_weight": 0.0}
    assert legal_plan(cluster, Settings(**weights)).steps == []


def test_larger_broker_takes_the_larger_part() -> None:
    # b1 (size 1): 4 × 100 | b2 (size 3): nothing
    cluster = Cluster((broker("b1"), broker("b2", 3)), bundles({"b1": [(f"t/{i}", 100) for i in range(4)]}))
    assert len(legal_plan(cluster).steps) == 3


def test_exchange_helps_where_no_single_move_fits() -> None:
    # b1: 60 50 | b2: 50 40 -> mean 100, band ends at 105: 60 must go against 50
    cluster = Cluster(PAIR, bundles({"b1": [("t/a", 60), ("t/b", 50)], "b2": [("t/c", 50), ("t/d", 40)]}))
    planned = legal_plan(cluster, Settings(tolerance=0.01))
    assert len(planned.steps) == 2
    assert planned.plan.balance.after["cpu"].max_over_mean == 1.0


def test_misplaced_bundle_goes_home() -> None:
    # b1 reserved for t/a, which sits on b2
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b1"]),))
    planned = legal_plan(Cluster(PAIR, bundles({"b2": [("t/a", 10), ("t/b", 10)]}), policies))
    assert destinations(planned) == {"t/a": ("b2", "b1")}
    assert "isolation policy p does not allow t/a on b2:8080" in planned.steps[0].reason
    assert planned.plan.violations.before.misplaced == 1
    assert planned.plan.violations.after.misplaced == 0
    assert planned.plan.bounds.moves == 1


def test_stopping_broker_is_emptied_and_receives_nothing() -> None:
    # b1 Stopping: 10 10 | b2: 50 | b3: 50
    brokers = (broker("b1", state="Stopping"), broker("b2"), broker("b3"))
    cluster = Cluster(brokers, bundles({"b1": [("t/a", 10), ("t/b", 10)], "b2": [("t/c", 50)], "b3": [("t/d", 50)]}))
    planned = legal_plan(cluster)
    assert {source for source, _ in destinations(planned).values()} == {"b1"}
    assert {target for _, target in destinations(planned).values()} == {"b2", "b3"}
    assert planned.plan.violations.after.to_be_emptied == 0


def test_broker_that_is_gone_is_emptied() -> None:
    brokers = (broker("b1", state="Inactive", incarnation=None), broker("b2"))
    planned = legal_plan(Cluster(brokers, bundles({"b1": [("t/a", 10)]})))
    assert destinations(planned) == {"t/a": ("b1", "b2")}


def test_broker_without_a_load_report_receives_nothing() -> None:
    brokers = (broker("b1"), broker("b2", state="Initial"))
    assert legal_plan(Cluster(brokers, bundles({"b1": [("t/a", 10), ("t/b", 10)]}))).steps == []


@pytest.mark.parametrize(
    ("namespace", "rule"), [("t/excluded", "excluded-namespace"), ("pulsar/system", "system-namespace")]
)
def test_excluded_and_system_namespaces_stay_and_are_named(namespace: str, rule: str) -> None:
    policies = Policies(excluded_namespaces=frozenset({"t/excluded"}))
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [(namespace, 200), (namespace, 200)]}), policies))
    assert planned.steps == []
    assert rules(planned) == {"band", rule}


def test_settings_exclude_namespaces_too() -> None:
    settings = Settings(shedding_excluded_namespaces=("t/a",))
    assert legal_plan(Cluster(PAIR, bundles({"b1": [("t/a", 200), ("t/a", 200)]})), settings).steps == []


def test_anti_affinity_bundles_move_for_balance_where_no_peak_rises() -> None:
    # b1 has both bundles of the group: one on each broker is better for the load and for the group
    policies = Policies(anti_affinity={"t/a": "g"})
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [("t/a", 200), ("t/a", 200)]}), policies))
    assert destinations(planned) == {"t/a": ("b1", "b2")}
    assert planned.plan.violations.after.anti_affinity_peak == 1


def test_anti_affinity_bundles_stay_where_another_broker_would_get_too_many() -> None:
    # one bundle of the group each, but b1 is hot: b2 must not get a second one
    policies = Policies(anti_affinity={"t/a": "g"})
    placed = bundles({"b1": [("t/a", 300)], "b2": [("t/a", 1)]})
    planned = legal_plan(Cluster(PAIR, placed, policies))
    assert planned.steps == []
    assert "anti-affinity" in rules(planned)


def test_anti_affinity_bundle_is_repaired_only_where_no_peak_rises() -> None:
    # t/a may live on b1 and b2 only; one bundle each on b1, b3: b1 has its share already
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b[12]"]),), anti_affinity={"t/a": "G"})
    brokers = (broker("b1"), broker("b2"), broker("b3"))
    planned = legal_plan(Cluster(brokers, bundles({"b1": [("t/a", 1)], "b3": [("t/a", 1)]}), policies))
    assert destinations(planned) == {"t/a": ("b3", "b2")}


def test_repair_that_would_crowd_a_group_is_refused() -> None:
    # t/a may live on b1 only, where a bundle of the group is already
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b1"]),), anti_affinity={"t/a": "g"})
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [("t/a", 1)], "b2": [("t/a", 1)]}), policies))
    assert planned.steps == []
    assert rules(planned) == {"anti-affinity"}


# t/p may live on p1 and p2 only, t/a on the others; both are of one group, so that no pool sees all of it
SPANNING = Policies(isolation=(isolation("p", ["t/p"], ["p."]),), anti_affinity={"t/p": "g", "t/a": "g"})


def test_group_that_spans_pools_does_not_keep_a_broker_from_being_emptied() -> None:
    # p1 (stopping): t/p | p2: nothing | b1: t/a
    brokers = (broker("b1"), broker("p1", state="Stopping"), broker("p2"))
    planned = legal_plan(Cluster(brokers, bundles({"p1": [("t/p", 10)], "b1": [("t/a", 10)]}), SPANNING))
    assert destinations(planned) == {"t/p": ("p1", "p2")}


def test_misplaced_bundle_of_a_group_that_spans_pools_goes_home() -> None:
    # b1: t/a t/p | b2: nothing | p1: nothing
    brokers = (broker("b1"), broker("b2"), broker("p1"))
    planned = legal_plan(Cluster(brokers, bundles({"b1": [("t/a", 10), ("t/p", 10)]}), SPANNING))
    assert destinations(planned) == {"t/p": ("b1", "p1")}


def test_group_that_spans_pools_is_not_moved_for_balance() -> None:
    # p1: 100 100 | p2: nothing | b1: t/a
    brokers = (broker("b1"), broker("p1"), broker("p2"))
    placed = {"p1": [("t/p", 100), ("t/p", 100)], "b1": [("t/a", 10)]}
    planned = legal_plan(Cluster(brokers, bundles(placed), SPANNING))
    assert planned.steps == []
    assert "anti-affinity" in rules(planned)


def test_repair_that_would_crowd_a_domain_with_bundles_of_another_pool_is_left_out() -> None:
    # p1 (stopping, zone 1): t/p | p2 (zone 2): nothing | b1 (zone 2): t/a, which the pool of p1 and p2 does not see
    brokers = (broker("b1", domain="z2"), broker("p1", state="Stopping", domain="z1"), broker("p2", domain="z2"))
    planned = legal_plan(Cluster(brokers, bundles({"p1": [("t/p", 10)], "b1": [("t/a", 10)]}), SPANNING))
    assert planned.steps == []
    assert "wave-order" in rules(planned)


def test_namespace_without_a_broker_does_not_pin_its_whole_group() -> None:
    # b1: 100 100 of the group | b2: nothing; another namespace of the group may live nowhere
    policies = Policies(
        isolation=(isolation("gone", ["t/gone"], ["nowhere"]),), anti_affinity={"t/a": "g", "t/gone": "g"}
    )
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [("t/a", 100), ("t/a", 100)]}), policies))
    assert destinations(planned) == {"t/a": ("b1", "b2")}


def test_of_equal_loads_the_one_moves_whose_clients_pay_less_catching_up_included() -> None:
    # b1: 100 with 10 sessions that nobody reads from, 100 with 9 sessions that have to catch up
    placed = bundles({"b1": [("t/unread", (100, 100, 0)), ("t/read", (100, 100, 1))]})
    cluster = Cluster(PAIR, dataclasses.replace(placed, sessions=np.array([10, 9])))
    settings = Settings(objective="disruption", bandwidth_out_resource_weight=0.0)
    assert destinations(legal_plan(cluster, settings)) == {"t/unread": ("b1", "b2")}


def test_namespace_that_no_broker_may_own_is_a_rejection() -> None:
    policies = Policies(isolation=(isolation("p", ["t/a"], ["nowhere"]),))
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [("t/a", 1)]}), policies))
    assert planned.steps == []
    assert {(row.rule, row.scope) for row in planned.rejections} == {
        ("no-eligible-broker", "bundle"),
        ("no-eligible-broker", "pool"),
        ("policy-without-brokers", "plan"),
    }


def test_giant_bundle_is_named_as_what_keeps_a_broker_hot() -> None:
    # b1: 500 | b2: 10
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [("t/huge", 500)], "b2": [("t/b", 10)]})))
    assert planned.steps == []
    assert {(row.scope, row.rule) for row in planned.rejections} == {("broker", "band"), ("bundle", "too-big")}


def test_giant_gets_the_largest_broker_nearly_to_itself() -> None:
    # b1 (size 1): 400 | b2 (size 2): 10 × 11 | b3 (size 1): 100 -> mean 152 of 1000, and 400 fits nobody's band
    sizes = (broker("b1"), broker("b2", 2), broker("b3"))
    owned = bundles({"b1": [("t/huge", 400)], "b2": [(f"t/{i}", 11) for i in range(10)], "b3": [("t/c", 100)]})
    planned = legal_plan(Cluster(sizes, owned))
    assert destinations(planned)["t/huge"] == ("b1", "b2")
    # It may keep company up to the tolerance: 5 % of 400 are enough for one of the ten.
    assert len(destinations(planned)) == 1 + 9


def test_nobody_is_driven_above_the_overload_line_to_help_another() -> None:
    # b1: 9 × 110 = 99 % | b2: 8 × 100 = 80 %; the mean is above the line of 85 %
    cluster = Cluster(
        PAIR, bundles({"b1": [(f"t/a{i}", 110) for i in range(9)], "b2": [(f"t/b{i}", 100) for i in range(8)]})
    )
    assert legal_plan(cluster, Settings(tolerance=0.0)).steps == []


def test_giant_above_the_overload_line_goes_where_it_stays_below_it() -> None:
    # b1 (size 1): 1200, 120 % | b2 (size 4): 100 | b3 (size 1): 100; no band has room for it
    brokers = (broker("b1"), broker("b2", 4), broker("b3"))
    placed = {"b1": [("t/huge", 1200)], "b2": [("t/b", 100)], "b3": [("t/c", 100)]}
    planned = legal_plan(Cluster(brokers, bundles(placed)))
    assert destinations(planned)["t/huge"] == ("b1", "b2")
    assert planned.plan.balance.after["cpu"].max <= 0.325


def test_unknown_limit_takes_the_resource_out_not_the_broker() -> None:
    # b2 has no known cpu limit, but may take bandwidth
    brokers = (broker("b1"), broker("b2", limits=(0, 1000, 1000)))
    planned = legal_plan(Cluster(brokers, bundles({"b1": [("t/a", (0, 200, 200)), ("t/b", (0, 200, 200))]})))
    assert len(planned.steps) == 1


def test_broker_of_which_no_limit_is_known_is_no_place_to_balance_to() -> None:
    brokers = (broker("b1"), broker("b2"), broker("b3", limits=(0, 0, 0)))
    planned = legal_plan(Cluster(brokers, bundles({"b1": [("t/a", 100), ("t/b", 100)]})))
    assert {target for _, target in destinations(planned).values()} == {"b2"}


@pytest.mark.parametrize(
    "cluster",
    [
        Cluster((), no_bundles()),
        Cluster(PAIR, no_bundles()),
        Cluster(PAIR, bundles({"b1": [("t/a", 0), ("t/b", 0)]})),
        Cluster((broker("b1"),), bundles({"b1": [("t/a", 900), ("t/b", 5)]})),
    ],
    ids=["nothing", "no bundles", "no load", "one broker"],
)
def test_clusters_with_nothing_to_do_give_an_empty_plan(cluster: Cluster) -> None:
    planned = legal_plan(cluster)
    assert planned.steps == []
    assert planned.plan.step_counts == StepCounts(0, 0, 0)


def test_no_budget_means_no_step_and_says_so() -> None:
    planned = legal_plan(Cluster(PAIR, bundles({"b1": [("t/a", 200), ("t/b", 200)]})), Settings(max_steps=0))
    assert planned.steps == []
    assert rules(planned) == {"step-budget"}
    assert {row.scope for row in planned.rejections} == {"broker", "bundle", "plan"}


def test_budget_goes_to_repairs_first() -> None:
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b3"]),))
    brokers = (*PAIR, broker("b3"))
    cluster = Cluster(brokers, bundles({"b1": [("t/a", 1), ("t/b", 200), ("t/c", 200)]}), policies)
    assert len(legal_plan(cluster).steps) == 2
    assert destinations(legal_plan(cluster, Settings(max_steps=1))) == {"t/a": ("b1", "b3")}


@pytest.mark.parametrize(("objective", "moves"), [("moves", 1), ("disruption", 5)])
def test_objective_counts_where_only_the_overload_line_asks_for_moves(objective: str, moves: int) -> None:
    # b1: 940 of 1000, of which 100 with many sessions or 5 × 20 with few leave | b2: 100; the band ends at 1040
    placed = bundles({"b1": [("t/kept", 740), ("t/busy", 100), *[("t/calm", 20)] * 5], "b2": [("t/b", 100)]})
    sessions = np.where(placed.namespace == "t/calm", 1, 40)
    cluster = Cluster(
        PAIR,
        dataclasses.replace(placed, sessions=sessions),
        Policies(excluded_namespaces=frozenset({"t/kept"})),
    )
    assert len(legal_plan(cluster, Settings(objective=objective, tolerance=1.0)).steps) == moves  # type: ignore[arg-type]
