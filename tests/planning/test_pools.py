"""Pools are what shares an eligible broker."""

from __future__ import annotations

from evenkeel.model.policies import Policies
from evenkeel.planning.problem.pools import assign_pools, live_broker_ids
from support.clusters import broker, isolation

IDS = ["b1:8080", "b2:8080", "b3:8080", "b4:8080"]


def test_cluster_without_policies_is_one_pool() -> None:
    pools = assign_pools(["t/a", "t/b"], IDS, Policies())
    assert set(pools.pool_of_broker.values()) == {"b1:8080"}
    assert set(pools.pool_of_namespace.values()) == {"b1:8080"}


def test_isolated_namespaces_are_pools_of_their_own() -> None:
    # b1 b2 | reserved for t/a      b3 b4 | shared
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b[12]"]),))
    pools = assign_pools(["t/a", "t/b"], IDS, policies)
    assert pools.pool_of_namespace == {"t/a": "b1:8080", "t/b": "b3:8080"}
    assert pools.pool_of_broker["b2:8080"] == "b1:8080"


def test_policies_that_overlap_join_their_pools() -> None:
    policies = Policies(isolation=(isolation("p", ["t/a"], ["b[12]"]), isolation("q", ["t/b"], ["b[23]"])))
    pools = assign_pools(["t/a", "t/b"], IDS, policies)
    assert pools.pool_of_namespace == {"t/a": "b1:8080", "t/b": "b1:8080"}
    assert pools.pool_of_broker["b4:8080"] == "b4:8080"


def test_namespace_that_no_broker_may_own_has_no_pool() -> None:
    policies = Policies(isolation=(isolation("p", ["t/a"], ["nowhere"]),))
    assert assign_pools(["t/a"], IDS, policies).pool_of_namespace == {"t/a": ""}


def test_brokers_that_no_namespace_may_use_are_pools_of_their_own() -> None:
    pools = assign_pools([], IDS, Policies())
    assert pools.pool_of_broker == {name: name for name in IDS}


def test_live_brokers_are_the_registered_ones() -> None:
    gone = broker("gone", state="Inactive", incarnation=None)
    stale = broker("stale", state="Inactive")
    stopping = broker("stopping", state="Stopping")
    assert live_broker_ids([stopping, gone, stale]) == ["stale:8080", "stopping:8080"]
