"""What a plan must not touch: bundles that are pinned, and brokers that are left alone."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from evenkeel.model.figures import PoolLimit
from evenkeel.model.settings import Settings
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, broker, bundles, destinations, leave_uncertified, plan, random_cluster

# b1 is hot with four bundles of 200; b2 and b3 are nearly idle.
SKEWED = Cluster(
    (broker("b1"), broker("b2"), broker("b3")),
    bundles({"b1": [(f"t/n{number}", 200) for number in range(4)], "b2": [("t/o", 10)], "b3": [("t/p", 10)]}),
)


def bundle_of(namespace: str) -> str:
    (row,) = [row for row, name in enumerate(SKEWED.bundles.namespace) if name == namespace]
    return str(SKEWED.bundles.bundle[row])


@pytest.mark.parametrize("seed", range(20))
def test_plan_of_any_cluster_leaves_alone_what_it_is_told_to(seed: int) -> None:
    cluster, draw = random_cluster(seed), random.Random(seed)
    spared = draw.sample([each.broker_id for each in cluster.brokers], 2)
    pinned = draw.sample(sorted(map(str, cluster.bundles.bundle)), 20)
    settings = Settings(brokers_left_alone=tuple(spared), pinned_bundles=tuple(pinned))
    # A search without time ends after its first rounds, which take a fraction of it.
    planned = plan(cluster, settings, has_time=lambda: seed % 10 == 3, certifier=leave_uncertified)
    assert find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, settings) == []
    assert not {step.bundle for step in planned.steps} & set(pinned)
    assert not {name for step in planned.steps for name in (step.source, step.destination)} & set(spared)


def test_rest_of_the_cluster_is_balanced_all_the_same() -> None:
    planned = plan(SKEWED, Settings(brokers_left_alone=("b3:8080",), pinned_bundles=(bundle_of("t/n0"),)))
    moves = destinations(planned)
    assert moves
    assert {destination for _, destination in moves.values()} == {"b2"}
    assert bundle_of("t/n0") not in {step.bundle for step in planned.steps}


@pytest.mark.parametrize(
    ("settings", "rule", "why"),
    [
        (Settings(brokers_left_alone=("b1:8080",)), "left-alone", "its broker is to be left alone by the settings"),
        (
            Settings(pinned_bundles=tuple(bundle_of(f"t/n{number}") for number in range(4))),
            "pinned-bundle",
            "it is pinned to its broker by the settings",
        ),
    ],
)
def test_what_is_left_alone_explains_why_a_broker_stays_hot(settings: Settings, rule: str, why: str) -> None:
    planned = plan(SKEWED, settings)
    assert planned.steps == []
    ((found, detail),) = {(row.rule, row.detail) for row in planned.rejections if row.bundle == bundle_of("t/n0")}
    assert (found, detail.partition(": ")[2]) == (rule, why)
    assert [pool.limited_by for pool in planned.plan.pools] == [PoolLimit.LEFT_ALONE]


def test_broker_that_is_alone_because_the_others_are_left_alone_says_so() -> None:
    (pool,) = plan(SKEWED, Settings(brokers_left_alone=("b2:8080", "b3:8080"))).plan.pools
    assert pool.limited_by is PoolLimit.ONE_BROKER
    assert pool.advice == ("letting the 2 brokers take part that the settings leave alone: only one other may receive",)


def test_bundle_that_must_leave_stays_where_all_others_are_left_alone() -> None:
    leaving = replace(SKEWED, brokers=(replace(broker("b1"), state="Stopping"), broker("b2"), broker("b3")))
    planned = plan(leaving, Settings(brokers_left_alone=("b2:8080", "b3:8080")))
    assert planned.steps == []
    ((rule, detail),) = {(row.rule, row.detail) for row in planned.rejections if row.bundle == bundle_of("t/n0")}
    assert rule == "left-alone"
    assert detail.endswith("the settings leave the 2 other brokers that may own it alone")


@pytest.mark.parametrize(
    ("settings", "rules"),
    [
        (Settings(pinned_bundles=(bundle_of("t/n1"),)), {"pinned-bundle"}),
        (Settings(brokers_left_alone=("b1:8080",)), {"left-alone"}),
        (Settings(brokers_left_alone=("b2:8080", "b3:8080")), {"left-alone"}),
    ],
)
def test_verifier_finds_a_step_that_touches_it(settings: Settings, rules: set[str]) -> None:
    steps = plan(SKEWED, Settings()).steps
    assert bundle_of("t/n1") in {step.bundle for step in steps}
    found = find_violations(steps, SKEWED.brokers, SKEWED.bundles, SKEWED.policies, settings)
    assert {violation.rule for violation in found} == rules
