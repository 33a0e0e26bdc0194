"""The verifier simulates splits, and catches each kind of bad one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from evenkeel.model.bundles import RING_END
from evenkeel.model.load import SplitCandidate
from evenkeel.model.plan import Step
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.planning.splitting.cuts import children_of
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, broker, plan
from support.splits import MIDDLE, WHOLE, cuts_of, split_bundles, split_candidate

# b1: huge 1200, t/a 10 | b2: t/b 10
CLUSTER = Cluster(
    (broker("b1"), broker("b2")), split_bundles({"b1": [("t/huge", 1200, 8), ("t/a", 10, 4)], "b2": [("t/b", 10, 2)]})
)
CUT = split_candidate("t/huge", reason="TooBig")
SPLIT, MOVE = plan(CLUSTER, None, [CUT]).steps
SIBLING = next(name for name in children_of(SPLIT.bundle, MIDDLE) if name != MOVE.bundle)


def broken_rules(
    *steps: Step,
    cluster: Cluster = CLUSTER,
    settings: Settings | None = None,
    cuts: Sequence[SplitCandidate] = (CUT,),
) -> set[str]:
    numbered = [dataclasses.replace(step, order=order) for order, step in enumerate(steps)]
    settings = settings or Settings()
    found = find_violations(numbered, cluster.brokers, cluster.bundles, cluster.policies, settings, cuts_of(*cuts))
    return {violation.rule for violation in found}


def changed(step: Step, **changes: Any) -> Step:
    return dataclasses.replace(step, **changes)


def test_split_with_the_move_of_a_child_is_legal() -> None:
    assert (SPLIT.kind, MOVE.kind) == ("split", "transfer")
    assert broken_rules(SPLIT, MOVE) == set()
    assert broken_rules(SPLIT) == set()


@pytest.mark.parametrize("boundary", [None, 0, RING_END, RING_END + 1, -1])
def test_boundary_lies_strictly_inside_the_range(boundary: int | None) -> None:
    assert "boundary" in broken_rules(changed(SPLIT, split_boundary=boundary))


def test_split_names_no_destination() -> None:
    assert broken_rules(changed(SPLIT, destination="b2:8080", destination_incarnation=7)) == {"destination"}


def test_child_is_moved_after_its_split_has_settled() -> None:
    assert broken_rules(changed(MOVE, wave=0), changed(SPLIT, wave=1)) == {"child-order"}
    both = changed(SPLIT, wave=0), changed(MOVE, wave=0)
    assert broken_rules(*both, settings=Settings(canary_steps=2)) == {"child-order"}


def test_child_of_a_split_that_is_not_in_the_plan_is_unknown() -> None:
    assert broken_rules(changed(MOVE, wave=0)) == {"unknown-bundle"}
    assert broken_rules(changed(SPLIT, split_boundary=MIDDLE + 1), MOVE) == {"unknown-bundle"}


def test_bundle_is_not_both_split_and_moved() -> None:
    whole = changed(MOVE, bundle=SPLIT.bundle, expected_version_id=2)
    assert "moved-twice" in broken_rules(SPLIT, whole)


def test_child_is_not_split_again() -> None:
    again = changed(SPLIT, bundle=SIBLING, wave=1, split_boundary=MIDDLE + 5, expected_version_id=1)
    again = again if MOVE.bundle < SIBLING else changed(again, split_boundary=MIDDLE - 5)
    assert broken_rules(SPLIT, again) == {"split-again"}


def test_children_are_those_of_one_cut_and_tile_the_ring() -> None:
    second = changed(SPLIT, split_boundary=MIDDLE + 1, wave=1)
    assert broken_rules(SPLIT, second) == {"moved-twice", "ring"}


def test_children_carry_what_their_parent_carries() -> None:
    assert broken_rules(SPLIT, changed(MOVE, cpu_millipercent=1201)) >= {"split-load"}
    other = changed(MOVE, bundle=SIBLING, wave=2)
    assert broken_rules(SPLIT, MOVE, changed(other, topics=MOVE.topics + 1)) >= {"split-load"}
    # all that is wrong with moving both halves is that the peak ends where it was
    assert "split-load" not in broken_rules(SPLIT, MOVE, other)


FIGURES = ("cpu_millipercent", "throughput_in_bytes_per_s", "throughput_out_bytes_per_s", "topics", "sessions")


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize("change", [-1, 1])
def test_child_carries_the_part_that_the_known_cut_gives_it(figure: str, change: int) -> None:
    lying = changed(MOVE, **{figure: getattr(MOVE, figure) + change})
    assert "split-load" in broken_rules(SPLIT, lying)


def test_both_children_of_an_odd_cut_carry_their_parts() -> None:
    cut = dataclasses.replace(CUT, lower_topics_ppb=333_333_333, lower_msg_rate_ppb=123_456_789)
    split, *moves = plan(CLUSTER, None, [cut]).steps
    assert moves
    assert broken_rules(split, *moves, cuts=[cut]) == set()
    assert "split-load" in broken_rules(split, *moves)


def test_child_of_a_cut_that_nobody_knows_is_not_moved() -> None:
    assert broken_rules(SPLIT, cuts=[]) == set()
    assert broken_rules(SPLIT, MOVE, cuts=[]) == {"split-load"}
    assert broken_rules(SPLIT, MOVE, cuts=[dataclasses.replace(CUT, boundary=MIDDLE + 1)]) == {"split-load"}


def test_child_starts_at_version_one_with_the_owner_of_its_parent() -> None:
    assert broken_rules(SPLIT, changed(MOVE, expected_version_id=3)) == {"version"}
    assert "wrong-owner" in broken_rules(SPLIT, changed(MOVE, source="b2:8080", destination="b1:8080"))


def test_bundle_of_one_topic_is_not_split() -> None:
    one_topic = dataclasses.replace(CLUSTER.bundles, topics=np.array([1, 4, 2]))
    assert "split-topics" in broken_rules(SPLIT, cluster=dataclasses.replace(CLUSTER, bundles=one_topic))


def test_draining_broker_is_not_given_more_bundles_by_a_split() -> None:
    draining = dataclasses.replace(CLUSTER, brokers=(broker("b1", state="Stopping"), broker("b2")))
    assert broken_rules(SPLIT, cluster=draining) == {"not-active"}


def test_split_makes_an_anti_affinity_group_more_crowded() -> None:
    grouped = dataclasses.replace(CLUSTER, policies=Policies(anti_affinity={"t/huge": "g"}))
    assert broken_rules(SPLIT, cluster=grouped) == {"anti-affinity"}


@pytest.mark.parametrize(
    ("policies", "rule"),
    [(Policies(excluded_namespaces=frozenset({"t/huge"})), "excluded-namespace")],
)
def test_excluded_namespaces_are_not_split(policies: Policies, rule: str) -> None:
    assert broken_rules(SPLIT, cluster=dataclasses.replace(CLUSTER, policies=policies)) == {rule}


@pytest.mark.parametrize(
    ("settings", "rule"),
    [
        (Settings(max_number_of_bundles_to_split_per_cycle=0), "split-budget"),
        (Settings(namespace_maximum_bundles=1), "namespace-bundles"),
        (Settings(max_steps=1), "step-budget"),
        (Settings(tenant_max_steps=1), "tenant-step-budget"),
        (Settings(max_moved_sessions=4), "sessions-budget"),
        (Settings(broker_max_topics=6), "topic-limit"),
        (Settings(broker_overloaded_threshold_percentage=60.0), "overload"),
    ],
)
def test_caps_count_splits_and_the_moves_of_children(settings: Settings, rule: str) -> None:
    # the child brings 600 of 1000, 4 topics and 5 sessions
    assert broken_rules(SPLIT, MOVE, settings=settings) == {rule}


def test_version_and_owner_of_the_parent_are_checked_too() -> None:
    assert SPLIT.bundle == f"t/huge/{WHOLE}"
    assert broken_rules(changed(SPLIT, expected_version_id=3)) == {"version"}
    assert "wrong-owner" in broken_rules(changed(SPLIT, source="b2:8080"))
    assert broken_rules(changed(SPLIT, source_incarnation=3)) == {"incarnation"}
