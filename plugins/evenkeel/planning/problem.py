"""One pool as arrays: who may carry what, what must move, and what must stay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.errors import InputError
from evenkeel.model.load import RESOURCES, Resource, limit_units
from evenkeel.model.policies import Policies
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.anti_affinity import domains_of, group_of
from evenkeel.planning.arrays import Bools, Ints
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.pools import NO_POOL, PoolAssignment, assign_pools, live_broker_ids
from evenkeel.pulsar.eligibility import Eligibility

__all__ = ["BundleColumns", "Mobility", "PoolProblem", "build_problem"]

EMPTIED_STATES = frozenset({BrokerState.STOPPING, BrokerState.INACTIVE})


class Mobility(IntEnum):
    """What the rules let a plan do with a bundle."""

    FREE = 0
    REPAIR_ONLY = 1
    EXCLUDED = 2
    SYSTEM = 3
    GROUP_SPANS_POOLS = 4
    IN_FLIGHT = 5


@dataclass(frozen=True, slots=True)
class PoolProblem:
    """A pool as arrays; brokers and bundles are in order of name, resources in the order of `RESOURCES`.

    The brokers are the pool's members and whoever else owns one of its bundles.
    A limit of 0 is unknown. `background` is the load that other pools' bundles put on the members.
    """

    pool: str
    broker_ids: tuple[str, ...]
    incarnations: tuple[int | None, ...]
    states: tuple[str, ...]
    domains: tuple[str, ...]
    is_member: Bools
    can_receive: Bools
    must_be_emptied: Bools
    limit: Ints
    background: Ints
    bundles: tuple[str, ...]
    namespaces: tuple[str, ...]
    version_ids: tuple[int | None, ...]
    groups: tuple[str | None, ...]
    owner: Ints
    load: Ints
    topics: Ints
    sessions: Ints
    mobility: Ints
    is_misplaced: Bools
    eligibility_class: Ints
    eligible: Bools
    class_policies: tuple[str | None, ...]

    @property
    def must_move(self) -> Bools:
        """Bundles whose owner may not keep them: not eligible, or to be emptied."""
        return self.is_misplaced | self.must_be_emptied[self.owner]

    def used(self, owner: Ints) -> Ints:
        """The load per broker and resource of the pool's own bundles under a placement."""
        used = np.zeros(self.limit.shape, dtype=np.int64)
        np.add.at(used, owner, self.load)
        return used

    def destinations(self, rows: Ints) -> Bools:
        """For each of these bundles, the brokers that may receive it."""
        allowed: Bools = self.eligible[self.eligibility_class[rows]] & self.can_receive
        return allowed


def build_problem(
    pool: str, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> PoolProblem:
    """Lay out one pool of a snapshot.

    `brokers` are all of the snapshot. `bundles` are those of the pool's namespaces, whoever owns them. Bundles of
    other pools may be among them: what they put on this pool's brokers is counted as load that stays.
    Idle bundles (owner null) are left out.
    """
    live = live_broker_ids(brokers)
    assignment = assign_pools((str(name) for name in bundles.namespace), live, policies)
    rows = bundles.sorted_by_name()
    rows = rows.take(np.flatnonzero([owner is not None for owner in rows.owner]))
    members = frozenset(broker for broker, its_pool in assignment.pool_of_broker.items() if its_pool == pool)
    if not members and pool != NO_POOL:
        raise InputError(f"no broker belongs to the pool {pool!r}", "name pools with assign_pools over live_broker_ids")
    is_own = np.array([assignment.pool_of_namespace[name] == pool for name in rows.namespace], dtype=bool)
    own = rows.take(np.flatnonzero(is_own))
    nodes = _nodes(brokers, members, own)
    guests = rows.take(np.flatnonzero(~is_own))
    return _lay_out(
        pool, nodes, members, own, _background(nodes, members, guests), policies, settings, live, assignment
    )


def _nodes(brokers: Sequence[Broker], members: frozenset[str], own: BundleColumns) -> list[Broker]:
    """The pool's members and whoever else owns one of its bundles, in order of name."""
    owners = {str(owner) for owner in own.owner}
    unknown = sorted(owners - {broker.broker_id for broker in brokers})
    if unknown:
        raise InputError(f"{unknown[0]} owns bundles but is not among the brokers", "take the snapshot again")
    wanted = members | owners
    return sorted((b for b in brokers if b.broker_id in wanted), key=lambda broker: broker.broker_id)


def _background(nodes: Sequence[Broker], members: frozenset[str], guests: BundleColumns) -> Ints:
    index = {broker.broker_id: row for row, broker in enumerate(nodes) if broker.broker_id in members}
    background = np.zeros((len(nodes), len(RESOURCES)), dtype=np.int64)
    here = np.flatnonzero([owner in index for owner in guests.owner])
    np.add.at(background, [index[owner] for owner in guests.owner[here]], guests.loads()[here])
    return background


def _lay_out(
    pool: str,
    nodes: Sequence[Broker],
    members: frozenset[str],
    own: BundleColumns,
    background: Ints,
    policies: Policies,
    settings: Settings,
    live: Sequence[str],
    assignment: PoolAssignment,
) -> PoolProblem:
    broker_ids = tuple(broker.broker_id for broker in nodes)
    index = {broker: row for row, broker in enumerate(broker_ids)}
    eligibility = Eligibility(live, policies)
    namespaces = tuple(str(name) for name in own.namespace)
    sets = {name: eligibility.brokers_for(name) for name in namespaces}
    # A class is what the planner may not tell apart: the same eligible brokers by the same policy.
    keys = sorted({(eligibility.policy_of(name) or "", tuple(sorted(sets[name]))) for name in sets})
    class_index = {key: row for row, key in enumerate(keys)}
    eligible = np.zeros((len(keys), len(nodes)), dtype=bool)
    for row, (_, eligible_ids) in enumerate(keys):
        eligible[row, [index[broker] for broker in eligible_ids]] = True
    classes = [class_index[eligibility.policy_of(name) or "", tuple(sorted(sets[name]))] for name in namespaces]
    owner = np.array([index[str(broker)] for broker in own.owner], dtype=np.int64)
    eligibility_class = np.array(classes, dtype=np.int64)
    is_member = np.array([broker in members for broker in broker_ids], dtype=bool)
    is_active = np.array([broker.state == BrokerState.ACTIVE for broker in nodes], dtype=bool)
    return PoolProblem(
        pool=pool,
        broker_ids=broker_ids,
        incarnations=tuple(broker.incarnation for broker in nodes),
        states=tuple(str(broker.state) for broker in nodes),
        domains=domains_of(nodes, policies),
        is_member=is_member,
        can_receive=is_member & is_active,
        must_be_emptied=np.array([broker.state in EMPTIED_STATES for broker in nodes], dtype=bool),
        limit=limits_of(nodes),
        background=background,
        bundles=tuple(str(name) for name in own.bundle),
        namespaces=namespaces,
        version_ids=tuple(None if version is None else int(version) for version in own.version_id),
        groups=tuple(group_of(name, policies) for name in namespaces),
        owner=owner,
        load=own.loads(),
        topics=own.topics,
        sessions=own.sessions,
        mobility=np.where(
            own.state == ServiceUnitState.OWNED,
            _mobilities(namespaces, policies, settings, eligibility, assignment, pool),
            Mobility.IN_FLIGHT,
        ),
        is_misplaced=~eligible[eligibility_class, owner] if len(own) else np.zeros(0, dtype=bool),
        eligibility_class=eligibility_class,
        eligible=eligible,
        class_policies=tuple(policy or None for policy, _ in keys),
    )


def limits_of(brokers: Sequence[Broker]) -> Ints:
    """The limits per broker and resource in integer units; 0 is unknown."""
    rows = [
        [
            limit_units(Resource.CPU, broker.cpu_limit_percent),
            limit_units(Resource.BANDWIDTH_IN, broker.bandwidth_in_limit_kbps),
            limit_units(Resource.BANDWIDTH_OUT, broker.bandwidth_out_limit_kbps),
        ]
        for broker in brokers
    ]
    return np.array(rows, dtype=np.int64).reshape(len(brokers), len(RESOURCES))


def _mobilities(
    namespaces: Sequence[str],
    policies: Policies,
    settings: Settings,
    eligibility: Eligibility,
    assignment: PoolAssignment,
    pool: str,
) -> Ints:
    excluded = policies.excluded_namespaces | frozenset(settings.shedding_excluded_namespaces)
    spanning = _groups_that_span_pools(policies, eligibility, assignment, pool)
    mobility: dict[str, Mobility] = {}
    for name in set(namespaces):
        group = group_of(name, policies)
        if is_system_namespace(name):
            mobility[name] = Mobility.SYSTEM
        elif name in excluded:
            mobility[name] = Mobility.EXCLUDED
        elif group is None:
            mobility[name] = Mobility.FREE
        else:
            mobility[name] = Mobility.GROUP_SPANS_POOLS if group in spanning else Mobility.REPAIR_ONLY
    return np.array([mobility[name] for name in namespaces], dtype=np.int64)


def _groups_that_span_pools(
    policies: Policies, eligibility: Eligibility, assignment: PoolAssignment, pool: str
) -> frozenset[str]:
    """Groups with a namespace outside of this pool: one pool alone cannot count them, so it leaves them alone."""
    spanning = set()
    for namespace in policies.anti_affinity:
        homes = {assignment.pool_of_broker[broker] for broker in eligibility.brokers_for(namespace)}
        if homes != {pool}:
            spanning.add(group_of(namespace, policies))
    return frozenset(group for group in spanning if group is not None)
