"""The checker of itineraries finds every kind of fault that is put into a good one."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import pytest

from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.itinerary.checker import verify_itinerary
from evenkeel.planning.itinerary.results import Itinerary, MoveBound, RestartRequest, Stage, StageMove
from support.clusters import Cluster, broker, bundles, isolation
from support.restarts import must_plan, problem_of

SETTINGS = Settings()
REQUEST = RestartRequest(places={"b1:8080": 1})
POLICIES = Policies(isolation=(isolation("own", ["t/own"], ["b4|b5"]),), anti_affinity={"t/ns1": "g"})
CLUSTER = Cluster(
    tuple(broker(f"b{row}", domain="zone") for row in range(1, 6)),
    bundles(
        {
            "b1": [("t/ns", 300), ("t/ns", 100)],
            "b2": [("t/ns", 300), ("t/ns", 100), ("t/ns1", 10)],
            "b3": [("t/ns", 300), ("t/ns", 100)],
            "b4": [("t/own", 100), ("t/own", 100)],
            "b5": [("t/own", 100)],
        }
    ),
    POLICIES,
)


def change_stage(itinerary: Itinerary, row: int, **changes: object) -> Itinerary:
    stages = list(itinerary.stages)
    stages[row] = dataclasses.replace(stages[row], **changes)  # type: ignore[arg-type]
    return dataclasses.replace(itinerary, stages=tuple(stages))


def change_move(itinerary: Itinerary, **changes: object) -> Itinerary:
    """Change the first move of the first stage, which empties b1."""
    first, *rest = itinerary.stages[0].moves
    return change_stage(itinerary, 0, moves=(dataclasses.replace(first, **changes), *rest))  # type: ignore[arg-type]


def send_everything_to_one(itinerary: Itinerary) -> Itinerary:
    moves = tuple(dataclasses.replace(move, destination="b2:8080") for move in itinerary.stages[0].moves)
    return change_stage(itinerary, 0, moves=moves)


def swap_first_stages(itinerary: Itinerary) -> Itinerary:
    first, second, *rest = itinerary.stages
    return dataclasses.replace(itinerary, stages=(second, first, *rest))


def leave_out_last_stage(itinerary: Itinerary) -> Itinerary:
    return dataclasses.replace(itinerary, stages=itinerary.stages[:-1])


def claim_more(itinerary: Itinerary) -> Itinerary:
    return dataclasses.replace(itinerary, bound=MoveBound(itinerary.moves, 1))


def claim_no_capacity(itinerary: Itinerary) -> Itinerary:
    rows = tuple(dataclasses.replace(row, line_load=0) for row in itinerary.capacity.rows)
    return dataclasses.replace(itinerary, capacity=dataclasses.replace(itinerary.capacity, rows=rows))


def test_good_itinerary_has_no_fault() -> None:
    assert verify_itinerary(problem_of(CLUSTER, SETTINGS, REQUEST), good(), SETTINGS) == []


def good() -> Itinerary:
    return must_plan(CLUSTER, SETTINGS, REQUEST)


@pytest.mark.parametrize(
    ("rule", "spoil"),
    [
        ("not-empty", lambda good: change_stage(good, 0, moves=())),
        ("unknown-bundle", lambda good: change_move(good, bundle="t/none/0x00000000_0x00000001")),
        ("unknown-broker", lambda good: change_move(good, destination="b9:8080")),
        ("wrong-owner", lambda good: change_move(good, source="b2:8080")),
        ("not-eligible", lambda good: change_move(good, destination="b4:8080")),
        ("not-eligible", lambda good: change_move(good, destination="b1:8080")),
        ("is-second", lambda good: change_move(good, is_second=True)),
        ("overload", send_everything_to_one),
        ("fixed-place", swap_first_stages),
        ("order", leave_out_last_stage),
        ("order", lambda good: change_stage(good, 1, place=7)),
        ("bound", claim_more),
        ("capacity", claim_no_capacity),
        ("overloaded-elsewhere", lambda good: dataclasses.replace(good, overloaded_elsewhere=("b5:8080",))),
    ],
)
def test_fault_is_found(rule: str, spoil: Callable[[Itinerary], Itinerary]) -> None:
    # Together, the bundles of b1 and b2 are above 75 %, so that sending all of b1 to b2 overloads it.
    settings = dataclasses.replace(SETTINGS, broker_overloaded_threshold_percentage=75.0)
    itinerary = must_plan(CLUSTER, settings, REQUEST)
    faults = verify_itinerary(problem_of(CLUSTER, settings, REQUEST), spoil(itinerary), settings)
    assert rule in {fault.rule for fault in faults}


@pytest.mark.parametrize(
    ("rule", "settings", "policies"),
    [
        ("topic-limit", Settings(broker_max_topics=3), POLICIES),
        ("fixed-bundle", Settings(shedding_excluded_namespaces=("t/ns",)), POLICIES),
        ("anti-affinity", SETTINGS, dataclasses.replace(POLICIES, anti_affinity={"t/ns": "g"})),
    ],
)
def test_itinerary_that_was_made_under_other_rules_is_found(rule: str, settings: Settings, policies: Policies) -> None:
    problem = problem_of(dataclasses.replace(CLUSTER, policies=policies), settings, REQUEST)
    assert rule in {fault.rule for fault in verify_itinerary(problem, good(), settings)}


def test_third_move_of_a_bundle_is_found() -> None:
    """One bundle goes b1 → b2 → b3 → b1, each broker being emptied in turn."""
    cluster = Cluster(tuple(broker(f"b{row}") for row in (1, 2, 3)), bundles({"b1": [("t/ns", 100)]}))
    planned = must_plan(cluster)
    bundle, ids = str(cluster.bundles.bundle[0]), ("b1:8080", "b2:8080", "b3:8080")
    stages = tuple(
        Stage(
            place + 1, source, (StageMove(bundle, source, ids[(place + 1) % 3], place > 0),), planned.stages[place].peak
        )
        for place, source in enumerate(ids)
    )
    faults = verify_itinerary(problem_of(cluster, SETTINGS), dataclasses.replace(planned, stages=stages), SETTINGS)
    assert [fault.rule for fault in faults] == ["third-move"]
