"""Which brokers may receive bundles: by state, by what they serve, and as Pulsar's managers compare versions."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem.receiving import Receivers, find_receivers
from evenkeel.planning.pulsar_strategies.counterfactual import STRATEGIES, decide
from evenkeel.planning.verifier.verifier import find_violations
from support.clusters import Cluster, broker, bundles, isolation, plan

PREFER = Settings(prefer_later_versions=True)


def versioned(name: str, version: str | None, **fields: Any) -> Broker:
    return dataclasses.replace(broker(name), version=version, **fields)


def names(brokers: list[Broker], settings: Settings) -> set[str]:
    return {name.partition(":")[0] for name in find_receivers(brokers, settings)}


def test_only_active_brokers_receive() -> None:
    brokers = [versioned(name, "4.0.0", state=state) for name, state in (("b1", "Active"), ("b2", "Stopping"))]
    assert names(brokers, Settings()) == {"b1"}


def test_only_the_latest_version_receives_where_it_is_preferred() -> None:
    brokers = [versioned("b1", "4.1.0-SNAPSHOT"), versioned("b2", "4.1.0"), versioned("b3", "4.2.0", state="Stopping")]
    assert names(brokers, PREFER) == {"b2"}
    assert names(brokers, Settings()) == {"b1", "b2"}


def test_version_that_cannot_be_read_lets_everyone_receive() -> None:
    assert names([versioned("b1", "4.0.0"), versioned("b2", None)], PREFER) == {"b1", "b2"}


def test_modular_manager_compares_versions_among_the_eligible_and_the_extensible_among_all() -> None:
    policies = Policies(isolation=(isolation("p", ["t/p"], ["p."]),))
    for manager, refusal in (("modular", None), ("extensible", "version-filter")):
        old, new = versioned("p1", "4.0.0", load_manager=manager), versioned("b1", "4.1.0", load_manager=manager)
        receivers = Receivers([old, new], policies, PREFER)
        found = receivers.find_refusal("t/p", new, old)
        assert (found[0] if found else None) == refusal


def test_planner_and_verifier_agree_on_versions_across_pools() -> None:
    # p1 p2 are a pool of their own and older than b1 b2: nobody there may receive, however uneven it is
    policies = Policies(isolation=(isolation("p", ["t/p"], ["p."]),))
    brokers = tuple(versioned(name, "4.0.0" if name[0] == "p" else "4.1.0") for name in ("b1", "b2", "p1", "p2"))
    placed = {"b1": [("t/a", 100), ("t/b", 100)], "p1": [("t/p", 100), ("t/p", 100)]}
    cluster = Cluster(brokers, bundles(placed), policies)
    assert {step.source for step in plan(cluster).steps} == {"b1:8080", "p1:8080"}
    planned = plan(cluster, PREFER)
    assert {step.source for step in planned.steps} == {"b1:8080"}
    assert find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, PREFER) == []


def modular(name: str, version: str, **fields: Any) -> Broker:
    return versioned(name, version, load_manager="modular", **fields)


def legal_steps(cluster: Cluster) -> set[tuple[str, str, str]]:
    planned = plan(cluster, PREFER)
    assert find_violations(planned.steps, cluster.brokers, cluster.bundles, cluster.policies, PREFER) == []
    return {(step.bundle.rpartition("/")[0], step.source[:2], str(step.destination)[:2]) for step in planned.steps}


def test_older_pool_of_a_modular_cluster_is_drained() -> None:
    # p1 p2 are a pool of their own and older than b1, which they are not compared with
    policies = Policies(isolation=(isolation("p", ["t/p"], ["p."]),))
    brokers = (modular("b1", "4.1.0"), modular("p1", "4.0.0", state="Stopping"), modular("p2", "4.0.0"))
    placed = bundles({"b1": [("t/a", 10)], "p1": [("t/p", 10)]})
    assert legal_steps(Cluster(brokers, placed, policies)) == {("t/p", "p1", "p2")}


def test_modular_manager_compares_versions_namespace_by_namespace() -> None:
    # t/both may live on b1 (older) and b2, t/old on b1 alone: b1 receives the one and not the other
    policies = Policies(isolation=(isolation("both", ["t/both"], ["b."]), isolation("old", ["t/old"], ["b1"])))
    brokers = (modular("b1", "4.0.0"), modular("b2", "4.1.0"))
    uneven = Cluster(brokers, bundles({"b1": [("t/both", 100), ("t/both", 90)], "b2": [("t/old", 10)]}), policies)
    assert legal_steps(uneven) == {("t/old", "b2", "b1"), ("t/both", "b1", "b2")}
    reverse = Cluster(brokers, bundles({"b2": [("t/both", 100), ("t/both", 100)]}), policies)
    assert legal_steps(reverse) == set()


def test_what_an_older_broker_keeps_does_not_raise_the_lowest_peak() -> None:
    # b1 (older) may keep its 100 of t/both, so that the best peak is that of two brokers, not of b2 alone
    policies = Policies(isolation=(isolation("both", ["t/both"], ["b."]), isolation("old", ["t/old"], ["b1"])))
    brokers = (modular("b1", "4.0.0"), modular("b2", "4.1.0"))
    placed = bundles({"b1": [("t/both", 100), ("t/old", 1)], "b2": [("t/both", 101)]})
    planned = plan(Cluster(brokers, placed, policies), PREFER)
    assert planned.steps == []
    assert planned.plan.pools[0].lowest_peak["cpu"] == 0.101


def without_persistent_topics(name: str, **fields: Any) -> Broker:
    return dataclasses.replace(broker(name), takes_persistent_topics=False, **fields)


def test_shared_broker_without_persistent_topics_keeps_what_it_has_and_receives_nothing() -> None:
    # b1: 100 100 100 100 | b2: nothing | b3 (non-persistent topics only): 10
    brokers = (broker("b1"), broker("b2"), without_persistent_topics("b3"))
    cluster = Cluster(brokers, bundles({"b1": [("t/a", 100)] * 4, "b3": [("t/a", 10)]}))
    assert legal_steps(cluster) == {("t/a", "b1", "b2")}


def test_policy_does_not_look_at_what_its_brokers_serve() -> None:
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b."]),))
    cluster = Cluster((broker("b1"), without_persistent_topics("b2")), bundles({"b1": [("t/a", 100)] * 2}), policies)
    assert legal_steps(cluster) == {("t/a", "b1", "b2")}


def test_verifier_names_a_shared_broker_without_persistent_topics() -> None:
    source, destination = broker("b1"), without_persistent_topics("b2")
    found = Receivers([source, destination], Policies(), Settings()).find_refusal("t/a", source, destination)
    assert found == ("persistent-topics", "b2:8080 serves no persistent topics")


def test_modular_manager_compares_versions_among_those_that_serve_persistent_topics() -> None:
    # b3 is newer than both, and of no use to anyone
    brokers = (modular("b1", "4.0.0"), modular("b2", "4.0.0"), modular("b3", "4.1.0", takes_persistent_topics=False))
    assert legal_steps(Cluster(brokers, bundles({"b1": [("t/a", 100)] * 2}))) == {("t/a", "b1", "b2")}


def test_drained_broker_says_that_nobody_else_serves_persistent_topics() -> None:
    brokers = (broker("b1", state="Stopping"), without_persistent_topics("b2"))
    planned = plan(Cluster(brokers, bundles({"b1": [("t/a", 10)]})))
    assert planned.steps == []
    assert [row.detail for row in planned.rejections if row.rule == "persistent-topics"] == [
        "b1:8080 may not keep the bundle, but the 1 other broker that may own it would have to serve persistent topics"
    ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_pulsars_own_strategies_bring_nothing_to_it_either(strategy: str) -> None:
    uneven = bundles({"b1": [("t/a", 200), ("t/b", 200), ("t/c", 200), ("t/d", 200)]})
    settings = Settings(bundle_unload_min_throughput_threshold=0.0)
    brokers = (broker("b1"), broker("b2"), without_persistent_topics("b3"))
    assert set(decide(strategy, brokers, uneven, Policies(), settings).destinations.values()) == {"b2:8080"}
    every = (broker("b1"), broker("b2"), broker("b3"))
    assert "b3:8080" in decide(strategy, every, uneven, Policies(), settings).destinations.values()
