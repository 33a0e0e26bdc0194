"""Divide a cluster into pools: namespaces and brokers that share no eligible broker are planned independently."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.pulsar_rules.eligibility import Eligibility

NO_POOL = ""


@dataclass(frozen=True, slots=True)
class PoolAssignment:
    """The pool of every namespace and broker; a pool is named after its first broker.

    Namespaces that no broker may own are in pool "". A broker that no namespace may use is a pool of its own.
    """

    pool_of_namespace: Mapping[str, str]
    pool_of_broker: Mapping[str, str]


def is_live(broker: Broker) -> bool:
    """Whether Pulsar counts a broker as live, that is, registered; it may still not be able to receive bundles."""
    return broker.incarnation is not None or broker.state != BrokerState.INACTIVE


def find_unreported(brokers: Iterable[Broker]) -> frozenset[str]:
    """The registered brokers that have no fresh report, so that nobody knows what they carry.

    One that is marked to be emptied is not among them: it is emptied with whatever is known of its load.
    """
    silent = (BrokerState.INITIAL, BrokerState.INACTIVE)
    return frozenset(b.broker_id for b in brokers if b.incarnation is not None and b.state in silent)


def live_broker_ids(brokers: Iterable[Broker]) -> list[str]:
    """The brokers that isolation policies apply to, sorted by name."""
    return sorted(broker.broker_id for broker in brokers if is_live(broker))


def assign_pools(namespaces: Iterable[str], broker_ids: Sequence[str], policies: Policies) -> PoolAssignment:
    """Find the pools by eligibility alone, regardless of current owners; `broker_ids` come from `live_broker_ids`."""
    eligibility = Eligibility(broker_ids, policies)
    eligible = {namespace: eligibility.brokers_for(namespace) for namespace in namespaces}
    first = {broker: broker for broker in broker_ids}
    for members in sorted(set(eligible.values()), key=sorted):
        _join(first, members)
    pool_of_broker = {broker: _root(first, broker) for broker in sorted(broker_ids)}
    pool_of_namespace = {
        namespace: pool_of_broker[min(members)] if members else NO_POOL
        for namespace, members in sorted(eligible.items())
    }
    return PoolAssignment(pool_of_namespace, pool_of_broker)


def _join(first: dict[str, str], members: Iterable[str]) -> None:
    roots = {_root(first, member) for member in members}
    for root in roots:
        first[root] = min(roots)


def _root(first: dict[str, str], broker: str) -> str:
    while first[broker] != broker:
        first[broker] = first[first[broker]]
        broker = first[broker]
    return broker


def cut_into_pools(
    brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies
) -> Iterator[tuple[str, BundleColumns]]:
    """Divide the bundles of a cluster into pools: each gets its own, and those of other pools on its brokers."""
    assignment = assign_pools(set(bundles.namespace), live_broker_ids(brokers), policies)
    home = np.array([assignment.pool_of_namespace[name] for name in bundles.namespace], dtype=object)
    host = np.array([assignment.pool_of_broker.get(owner) for owner in bundles.owner], dtype=object)
    for pool in sorted({*assignment.pool_of_broker.values(), *assignment.pool_of_namespace.values()}):
        yield pool, bundles.take(np.flatnonzero((home == pool) | (host == pool)))
