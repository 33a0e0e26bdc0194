"""Itineraries of named small clusters, what is refused and why, and the restart of 12 brokers with 1,200 bundles."""

from __future__ import annotations

import dataclasses
from collections import Counter

import pytest

from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.itinerary.results import RefusalKind, RestartRequest
from support.clusters import Cluster, broker, bundles, isolation
from support.restarts import even_cluster, must_plan, must_refuse, plan_restart

BROKERS = (broker("b1"), broker("b2"), broker("b3"))


def three(loads: dict[str, list[int]], policies: Policies | None = None, brokers: tuple = BROKERS) -> Cluster:  # type: ignore[type-arg]
    placed = {name: [("t/ns", load) for load in its] for name, its in loads.items()}
    return Cluster(brokers, bundles(placed), policies or Policies())


def test_broker_with_the_fewest_bundles_goes_first_and_only_its_bundles_move_twice() -> None:
    planned = must_plan(three({"b1": [100] * 3, "b2": [100], "b3": [100] * 2}))
    assert planned.broker_ids[0] == "b2:8080"
    assert (planned.bound.departures, planned.bound.second_moves, planned.moves) == (6, 1, 7)
    assert planned.ratio == 1.0
    assert [move.is_second for stage in planned.stages for move in stage.moves].count(True) == 1


def test_empty_broker_makes_a_second_move_unnecessary() -> None:
    planned = must_plan(three({"b1": [100] * 3, "b3": [100] * 2}))
    assert planned.broker_ids[0] == "b2:8080"
    assert planned.stages[0].moves == ()
    assert planned.moves == planned.bound.moves == 5


def test_broker_that_is_not_restarted_takes_bundles_for_good() -> None:
    cluster = three({"b1": [100] * 3, "b2": [100], "b3": [100]})
    planned = must_plan(cluster, request=RestartRequest(("b1:8080", "b2:8080")))
    assert sorted(planned.broker_ids) == ["b1:8080", "b2:8080"]
    assert planned.moves == planned.bound.moves == 4


def test_broker_keeps_the_place_that_it_was_given() -> None:
    cluster = three({"b1": [100] * 3, "b2": [100], "b3": [100] * 2})
    planned = must_plan(cluster, request=RestartRequest(places={"b1:8080": 1, "b2:8080": 3}))
    assert planned.broker_ids == ("b1:8080", "b3:8080", "b2:8080")
    # The bound knows the places: another first broker would have needed fewer moves.
    assert planned.moves == planned.bound.moves == 9


def test_pools_have_a_first_broker_each() -> None:
    policies = Policies(isolation=(isolation("own", ["t/own"], ["b3|b4"]),))
    placed = {
        "b1": [("t/ns", 100)] * 2,
        "b2": [("t/ns", 100)] * 3,
        "b3": [("t/own", 100)] * 4,
        "b4": [("t/own", 50)] * 5,
    }
    planned = must_plan(Cluster((*BROKERS[:2], broker("b3"), broker("b4")), bundles(placed), policies))
    assert (planned.bound.departures, planned.bound.second_moves) == (14, 2 + 4)
    assert planned.moves == 20


def test_bundles_of_pulsar_itself_do_not_keep_a_broker_from_being_empty() -> None:
    placed = {"b1": [("pulsar/local/b1:8080", 10), ("t/ns", 100)], "b2": [("t/ns", 100)]}
    planned = must_plan(Cluster(BROKERS[:2], bundles(placed)))
    assert all("pulsar/" not in move.bundle for stage in planned.stages for move in stage.moves)


def test_missing_capacity_is_refused_with_the_numbers() -> None:
    refused = must_refuse(three({"b1": [600], "b2": [572, 200], "b3": [372]}))
    assert {refusal.kind for refusal in refused.refusals} == {RefusalKind.CAPACITY}
    # 1,744 of the two others' 2,000.
    assert refused.refusals[0].reason == (
        "without b1:8080 its pool needs 87.2 % of the cpu limit of the others (b2:8080, b3:8080), "
        "the overload line is 85 %"
    )
    assert refused.capacity is not None
    assert len(refused.capacity.rows) == 9
    with pytest.raises(RefusedError, match=r"87\.2 % of the cpu limit.*; and 6 more: add a broker"):
        raise refused.error()


def test_capacity_counts_only_the_brokers_that_may_own_a_bundle() -> None:
    policies = Policies(isolation=(isolation("own", ["t/own"], ["b2|b3"]),))
    placed = {"b2": [("t/own", 500)], "b3": [("t/own", 400)]}
    refused = must_refuse(Cluster(BROKERS, bundles(placed), policies))
    assert [refusal.broker_id for refusal in refused.refusals] == ["b2:8080"] * 3 + ["b3:8080"] * 3
    assert "90.0 % of the cpu limit of the only other, b3:8080" in refused.refusals[0].reason


def test_overloaded_broker_is_refused_with_its_load() -> None:
    refused = must_refuse(three({"b1": [500, 400], "b2": [100], "b3": [100]}))
    assert (refused.refusals[0].broker_id, refused.refusals[0].kind) == ("b1:8080", RefusalKind.OVERLOADED)
    assert "carries 90.0 % of its cpu limit, the overload line is 85 %" in refused.refusals[0].reason


def test_overloaded_broker_that_the_restart_cannot_touch_is_told() -> None:
    policies = Policies(isolation=(isolation("own", ["t/own"], ["b2|b3"]),))
    placed = {"b1": [("t/ns", 900)], "b2": [("t/own", 100)], "b3": [("t/own", 100)]}
    cluster = Cluster(BROKERS, bundles(placed), policies)
    planned = must_plan(cluster, request=RestartRequest(("b2:8080", "b3:8080")))
    assert planned.overloaded_elsewhere == ("b1:8080",)
    assert must_plan(three({"b1": [100]})).overloaded_elsewhere == ()


def test_bundle_that_is_too_large_for_any_other_broker_is_named() -> None:
    brokers = (broker("b1", size=4), broker("b2"), broker("b3"), broker("b4"))
    refused = must_refuse(three({"b1": [1000]}, brokers=brokers))
    assert [refusal.kind for refusal in refused.refusals] == [RefusalKind.NO_PLACEMENT]
    assert "t/ns/0x00000000_0x00000001" in refused.refusals[0].reason


@pytest.mark.parametrize(
    ("settings", "policies", "kind", "words"),
    [
        (Settings(pinned_bundles=("t/ns/0x00000000_0x00000001",)), Policies(), "fixed-bundles", "is pinned"),
        (Settings(shedding_excluded_namespaces=("t/ns",)), Policies(), "fixed-bundles", "is excluded from moves"),
        (Settings(brokers_left_alone=("b1:8080",)), Policies(), "left-alone", "is to be left alone"),
        (
            Settings(),
            Policies(isolation=(isolation("own", ["t/ns"], ["b1"]),)),
            "no-other-broker",
            "no other broker may receive",
        ),
        (
            Settings(),
            Policies(anti_affinity={"t/ns": "g"}),
            "anti-affinity",
            "must own 3 bundles of anti-affinity group g, and 2 is the most",
        ),
    ],
)
def test_broker_that_cannot_be_emptied_is_refused_by_name(
    settings: Settings, policies: Policies, kind: str, words: str
) -> None:
    brokers = tuple(dataclasses.replace(b, failure_domain=b.broker_id) for b in BROKERS)
    cluster = three({"b1": [100], "b2": [100], "b3": [100]}, policies, brokers)
    refused = must_refuse(cluster, settings, RestartRequest(("b1:8080",)))
    assert [(refusal.broker_id, refusal.kind) for refusal in refused.refusals] == [("b1:8080", kind)]
    assert words in refused.refusals[0].reason


@pytest.mark.parametrize(
    ("state", "incarnation", "kind"), [("Inactive", None, "not-registered"), ("Initial", 7, "no-load-report")]
)
def test_broker_that_nobody_knows_enough_of_is_refused(state: str, incarnation: int | None, kind: str) -> None:
    brokers = (broker("b1", state=state, incarnation=incarnation), *BROKERS[1:])
    refused = must_refuse(three({"b2": [100]}, brokers=brokers), request=RestartRequest(("b1:8080",)))
    assert [refusal.kind for refusal in refused.refusals] == [kind]


def test_brokers_that_are_left_alone_are_neither_restarted_nor_filled() -> None:
    settings = Settings(brokers_left_alone=("b3:8080",))
    planned = must_plan(three({"b1": [100], "b2": [100], "b3": [100]}), settings)
    assert sorted(planned.broker_ids) == ["b1:8080", "b2:8080"]
    assert all(move.destination != "b3:8080" for stage in planned.stages for move in stage.moves)


def test_topic_limit_is_respected() -> None:
    # Two topics are on each of two brokers; a third broker with one would have three.
    cluster = three({"b1": [100] * 2, "b2": [100] * 2, "b3": [100]})
    assert must_plan(cluster, Settings(broker_max_topics=4)).moves == 6
    assert must_refuse(cluster, Settings(broker_max_topics=3)).refusals[0].kind == RefusalKind.NO_PLACEMENT


@pytest.mark.parametrize(
    ("names", "places", "words"),
    [
        ((), {}, "no broker to restart is named"),
        (("b1:8080", "b1:8080"), {}, "b1:8080 is named twice"),
        (("b9:8080",), {}, "b9:8080 is not a broker of the snapshot"),
        (None, {"b9:8080": 1}, "b9:8080 is not a broker of the snapshot"),
        (None, {"b1:8080": 0}, "place 0 of b1:8080"),
        (None, {"b1:8080": 4}, "b1:8080 cannot be number 4 in the order, because 3 brokers are restarted"),
        (None, {"b1:8080": 1, "b2:8080": 1}, "two brokers have the same place"),
    ],
)
def test_request_that_cannot_be_meant_is_refused(
    names: tuple[str, ...] | None, places: dict[str, int], words: str
) -> None:
    with pytest.raises(InputError, match=words):
        plan_restart(three({"b1": [100]}), request=RestartRequest(names, places))


@pytest.mark.parametrize("sizes", [(1,), (1, 2), (1, 2, 4)])
@pytest.mark.parametrize("utilisation", [0.5, 0.65])
def test_restart_of_12_brokers_and_1200_bundles_needs_hardly_more_moves_than_any(
    utilisation: float, sizes: tuple[int, ...]
) -> None:
    settings = Settings()
    cluster = even_cluster(0, 12, 1200, utilisation, sizes)
    planned = must_plan(cluster, settings)
    moved = Counter(move.bundle for stage in planned.stages for move in stage.moves)
    assert len(planned.stages) == 12
    assert len(moved) == 1200
    assert max(moved.values()) == 2
    peak = max(stage.peak.share for stage in planned.stages)
    print(
        f"sizes {sizes}, {utilisation:.0%} full: {planned.moves} moves, bound {planned.bound.moves}, "
        f"ratio {planned.ratio:.3f}, peak {peak:.1%}"
    )
    assert peak <= settings.broker_overloaded_threshold_percentage / 100
    assert planned.ratio <= 1.10


@pytest.mark.parametrize("seed", range(4))
def test_equal_brokers_that_are_nearly_full_are_restarted_with_hardly_more_moves_than_any(seed: int) -> None:
    # 0.75 × 12/11 = 81.8 % while a broker is away.
    assert must_plan(even_cluster(seed, 12, 1200, 0.75)).ratio <= 1.01, f"seed {seed}"
