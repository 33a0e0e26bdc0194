"""Cuts a cluster into pools: namespaces and brokers that share no eligible broker are planned independently."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.pulsar.eligibility import Eligibility

NO_POOL = ""


@dataclass(frozen=True, slots=True)
class PoolAssignment:
    """The pool of every namespace and broker; a pool bears the name of its first broker.

    Namespaces that no broker may own have the pool "". A broker that no namespace may use is a pool of its own.
    """

    pool_of_namespace: Mapping[str, str]
    pool_of_broker: Mapping[str, str]


def is_live(broker: Broker) -> bool:
    """Whether Pulsar counts a broker as live, that is, whether it is registered; it may still be unfit to receive."""
    return broker.incarnation is not None or broker.state != BrokerState.INACTIVE


def live_broker_ids(brokers: Iterable[Broker]) -> list[str]:
    """The brokers that isolation policies are evaluated over, in order of name."""
    return sorted(broker.broker_id for broker in brokers if is_live(broker))


def assign_pools(namespaces: Iterable[str], broker_ids: Sequence[str], policies: Policies) -> PoolAssignment:
    """Find the pools by eligibility alone, whoever owns what now; `broker_ids` are those of `live_broker_ids`."""
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
