"""One pool as arrays: who may carry what, what must move, and what must stay."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

import numpy as np

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.errors import InputError
from evenkeel.model.load import RESOURCES, Resource, limit_units
from evenkeel.model.policies import Policies
from evenkeel.model.service_unit import ServiceUnitState
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.problem.anti_affinity import NO_GROUP, domains_of, group_of
from evenkeel.planning.problem.columns import Bools, BundleColumns, Ints, Objects
from evenkeel.planning.problem.pools import NO_POOL, PoolAssignment, assign_pools, cut_into_pools, live_broker_ids
from evenkeel.planning.problem.receiving import find_outdated, find_receivers, may_serve
from evenkeel.pulsar_rules.eligibility import Eligibility

EMPTIED_STATES = frozenset({BrokerState.STOPPING, BrokerState.INACTIVE})


class Mobility(IntEnum):
    """Whether a plan may move a bundle, and if not, why."""

    FREE = 0
    EXCLUDED = 1
    SYSTEM = 2
    GROUP_SPANS_POOLS = 3
    IN_FLIGHT = 4
    UNREPORTED = 5
    PINNED = 6
    LEFT_ALONE = 7


@dataclass(frozen=True, slots=True)
class PoolProblem:
    """A pool as arrays; brokers and bundles are sorted by name, resources are in the order of `RESOURCES`.

    The brokers are the pool's members and all other owners of its bundles.
    A limit of 0 is unknown. `background` is the load that other pools' bundles put on the members.
    `domain` and `group` are indices of failure domains and anti-affinity groups; a bundle without a group has -1.
    Bundles with the same eligibility form a class: `isolated` tells which brokers may own a class by isolation
    policies, `serving` which of these serve its topics, and `eligible` which of these pass the version filter, plus the
    present owner. `must_move` are the bundles whose owner may not keep them, that may move, and that some broker may
    receive.
    """

    pool: str
    load_manager: str
    broker_ids: tuple[str, ...]
    incarnations: tuple[int | None, ...]
    states: tuple[str, ...]
    domains: tuple[str, ...]
    domain: Ints
    is_member: Bools
    can_receive: Bools
    is_left_alone: Bools
    must_be_emptied: Bools
    limit: Ints
    background: Ints
    bundles: Objects
    namespaces: Objects
    version_ids: Objects
    group_names: tuple[str, ...]
    group: Ints
    owner: Ints
    load: Ints
    topics: Ints
    sessions: Ints
    mobility: Ints
    is_misplaced: Bools
    eligibility_class: Ints
    isolated: Bools
    serving: Bools
    eligible: Bools
    class_policies: tuple[str | None, ...]
    unreported: tuple[str, ...] = ()
    must_move: Bools = field(init=False)

    def __post_init__(self) -> None:
        has_receiver = np.asarray((self.eligible & self.can_receive).any(axis=1))
        must_move = self.is_stranded & (self.mobility == Mobility.FREE) & has_receiver[self.eligibility_class]
        object.__setattr__(self, "must_move", must_move)

    @property
    def is_stranded(self) -> Bools:
        """Bundles whose owner may not keep them, whether they may move or not."""
        return self.is_misplaced | self.must_be_emptied[self.owner]

    def group_name(self, row: int) -> str | None:
        """The name of a bundle's anti-affinity group, if it has one."""
        group = int(self.group[row])
        return None if group == NO_GROUP else self.group_names[group]

    def used(self, owner: Ints) -> Ints:
        """The load of the pool's own bundles per broker and resource, with these owners."""
        used = np.zeros(self.limit.shape, dtype=np.int64)
        np.add.at(used, owner, self.load)
        return used

    def destinations(self, rows: Ints) -> Bools:
        """For each of these bundles, which brokers may receive it."""
        allowed: Bools = self.eligible[self.eligibility_class[rows]] & self.can_receive
        return allowed


def build_problem(
    pool: str,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    unreported: Collection[str] = (),
) -> PoolProblem:
    """Build the arrays of one pool of a snapshot.

    `brokers` are all brokers of the snapshot. `bundles` are those of the pool's namespaces, whoever owns them. They may
    include bundles of other pools, whose load on this pool's brokers counts as background. Idle bundles (owner null)
    are left out. A pool with a member in `unreported` stays as it is, because nobody knows what that broker carries.
    """
    live = live_broker_ids(brokers)
    rows = bundles.take(np.flatnonzero(bundles.owner != None)).sorted_by_name()  # noqa: E711  # of each element
    names, name_of_row = number(rows.namespace)
    assignment = assign_pools(names, live, policies)
    members = frozenset(broker for broker, its_pool in assignment.pool_of_broker.items() if its_pool == pool)
    if not members and pool != NO_POOL:
        raise InputError(f"pool {pool!r} has no brokers", "name pools with assign_pools over live_broker_ids")
    is_own = np.array([assignment.pool_of_namespace[name] == pool for name in names], dtype=bool)[name_of_row]
    own = rows.take(np.flatnonzero(is_own))
    nodes = _nodes(brokers, members, own)
    guests = rows.take(np.flatnonzero(~is_own))
    return _lay_out(
        pool,
        nodes,
        members,
        own,
        _background(nodes, members, guests),
        policies,
        settings,
        live,
        assignment,
        find_receivers(brokers, settings),
        frozenset(unreported),
    )


def _nodes(brokers: Sequence[Broker], members: frozenset[str], own: BundleColumns) -> list[Broker]:
    """The pool's members and all other owners of its bundles, sorted by name."""
    owners = set(own.owner.tolist())
    unknown = sorted(owners - {broker.broker_id for broker in brokers})
    if unknown:
        raise InputError(f"{unknown[0]} owns bundles but is not among the brokers", "take the snapshot again")
    wanted = members | owners
    return sorted((b for b in brokers if b.broker_id in wanted), key=lambda broker: broker.broker_id)


def _background(nodes: Sequence[Broker], members: frozenset[str], guests: BundleColumns) -> Ints:
    index = {broker.broker_id: row for row, broker in enumerate(nodes) if broker.broker_id in members}
    background = np.zeros((len(nodes), len(RESOURCES)), dtype=np.int64)
    owner = np.array([index.get(name, -1) for name in guests.owner.tolist()], dtype=np.int64)
    np.add.at(background, owner[owner >= 0], guests.loads()[owner >= 0])
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
    receivers: frozenset[str],
    unreported: frozenset[str],
) -> PoolProblem:
    broker_ids = tuple(broker.broker_id for broker in nodes)
    index = {broker: row for row, broker in enumerate(broker_ids)}
    eligibility = Eligibility(live, policies)
    # Policies are evaluated once per namespace, however many bundles it has.
    names, name_of_row = number(own.namespace)
    owner = np.array([index[broker] for broker in own.owner.tolist()], dtype=np.int64)
    classes = _classify(names, name_of_row, owner, nodes, eligibility, settings)
    is_misplaced = ~classes.eligible[classes.of_row, owner]
    must_be_emptied = np.array([broker.state in EMPTIED_STATES for broker in nodes], dtype=bool)
    is_member = np.array([broker in members for broker in broker_ids], dtype=bool)
    domains = domains_of(nodes, policies)
    groups, group_of_name = number([group_of(name, policies) or "" for name in names])
    group_names = tuple(group for group in groups if group)
    group_numbers = np.array([group_names.index(group) if group else NO_GROUP for group in groups], dtype=np.int64)
    mobility = _mobilities(names, policies, settings, eligibility, assignment, pool)[name_of_row]
    # Bundles that may not stay move in any case: the order of the steps counts groups over all pools, and drops moves
    # that would crowd one.
    is_repair = (mobility == Mobility.GROUP_SPANS_POOLS) & (is_misplaced | must_be_emptied[owner])
    mobility[is_repair] = Mobility.FREE
    is_left_alone = np.isin(broker_ids, settings.brokers_left_alone)
    mobility[is_left_alone[owner]] = Mobility.LEFT_ALONE
    mobility[np.isin(own.bundle.astype(str), settings.pinned_bundles)] = Mobility.PINNED
    is_unreported = np.array([broker in unreported for broker in broker_ids], dtype=bool)
    must_be_emptied &= ~is_unreported
    mobility[is_unreported[owner] | (is_unreported & is_member).any()] = Mobility.UNREPORTED
    return PoolProblem(
        pool=pool,
        load_manager=str(nodes[0].load_manager) if nodes else "",
        broker_ids=broker_ids,
        incarnations=tuple(broker.incarnation for broker in nodes),
        states=tuple(str(broker.state) for broker in nodes),
        domains=domains,
        domain=number(domains)[1],
        is_member=is_member,
        can_receive=is_member
        & classes.is_open
        & ~is_left_alone
        & np.array([broker in receivers for broker in broker_ids], dtype=bool),
        is_left_alone=is_left_alone,
        must_be_emptied=must_be_emptied,
        limit=limits_of(nodes, settings),
        background=background,
        bundles=own.bundle,
        namespaces=own.namespace,
        version_ids=own.version_id,
        group_names=group_names,
        group=group_numbers[group_of_name][name_of_row],
        owner=owner,
        load=own.loads(),
        topics=own.topics,
        sessions=own.sessions,
        mobility=np.where(own.state == ServiceUnitState.OWNED, mobility, Mobility.IN_FLIGHT),
        is_misplaced=is_misplaced,
        eligibility_class=classes.of_row,
        isolated=classes.isolated,
        serving=classes.serving,
        eligible=classes.eligible,
        class_policies=classes.policies,
        unreported=tuple(sorted(members & unreported)),
    )


def number(values: Iterable[Any]) -> tuple[list[Any], Ints]:
    """The distinct values in order of first appearance, and the index of each value among them."""
    numbers: dict[Any, int] = {}
    of_each = np.array([numbers.setdefault(value, len(numbers)) for value in values], dtype=np.int64)
    return list(numbers), of_each


@dataclass(frozen=True, slots=True)
class _Classes:
    """Classes of bundles with the same eligibility; `is_open` are the brokers that may receive at least one class."""

    policies: tuple[str | None, ...]
    isolated: Bools
    serving: Bools
    eligible: Bools
    is_open: Bools
    of_row: Ints


def _classify(
    names: Sequence[str],
    name_of_row: Ints,
    owner: Ints,
    nodes: Sequence[Broker],
    eligibility: Eligibility,
    settings: Settings,
) -> _Classes:
    """Group bundles by policy and eligible brokers; bundles that their owner may keep but not receive are separate."""
    keys, class_of_name = _class_keys(names, eligibility)
    policies = [policy or None for policy, _ in keys]
    isolated, serving, receiving = (np.zeros((len(keys), len(nodes)), dtype=bool) for _ in range(3))
    for kind, (_, eligible_ids) in enumerate(keys):
        isolated[kind] = [broker.broker_id in eligible_ids for broker in nodes]
        serving[kind] = isolated[kind] & [may_serve(broker, policies[kind]) for broker in nodes]
        outdated = find_outdated([nodes[row] for row in np.flatnonzero(serving[kind]).tolist()], settings)
        receiving[kind] = serving[kind] & [broker.broker_id not in outdated for broker in nodes]
    is_shut = isolated & ~receiving
    is_open = np.asarray(~is_shut.any(axis=0) | receiving.any(axis=0))
    origin, eligible, of_row = _keep_present_owners(receiving, is_shut, class_of_name[name_of_row], owner)
    return _Classes(
        tuple(policies[kind] for kind in origin), isolated[origin], serving[origin], eligible, is_open, of_row
    )


def _class_keys(names: Sequence[str], eligibility: Eligibility) -> tuple[list[tuple[str, frozenset[str]]], Ints]:
    """The policies with their eligible brokers in a fixed order, and the index of each namespace among them."""
    keys = [(eligibility.policy_of(name) or "", eligibility.brokers_for(name)) for name in names]
    in_order = sorted(set(keys), key=lambda key: (key[0], sorted(key[1])))
    place = {key: row for row, key in enumerate(in_order)}
    return in_order, np.array([place[key] for key in keys], dtype=np.int64)


def _keep_present_owners(eligible: Bools, is_shut: Bools, class_of_row: Ints, owner: Ints) -> tuple[Ints, Bools, Ints]:
    """Add classes for bundles whose owner may keep but not receive them; in these, the owner is eligible too.

    Returns for each class the one that it was derived from, its eligible brokers, and the class of each bundle. Without
    these classes, the lowest peak would be computed as if everything had to leave brokers that cannot receive.
    """
    origin, of_row = np.arange(len(eligible)), class_of_row.copy()
    for kind, broker in np.argwhere(is_shut).tolist():
        stays = (class_of_row == kind) & (owner == broker)
        if stays.any():
            of_row[stays] = len(origin)
            origin = np.append(origin, kind)
            eligible = np.vstack([eligible, eligible[kind] | (np.arange(eligible.shape[1]) == broker)])
    return origin, eligible, of_row


def limits_of(brokers: Sequence[Broker], settings: Settings) -> Ints:
    """The limits per broker and resource in integer units; 0 if unknown, or ignored because of a weight of 0."""
    rows = [
        [
            limit_units(Resource.CPU, broker.cpu_limit_percent),
            limit_units(Resource.BANDWIDTH_IN, broker.bandwidth_in_limit_kbps),
            limit_units(Resource.BANDWIDTH_OUT, broker.bandwidth_out_limit_kbps),
        ]
        for broker in brokers
    ]
    weights = (
        settings.cpu_resource_weight,
        settings.bandwidth_in_resource_weight,
        settings.bandwidth_out_resource_weight,
    )
    limits: Ints = np.array(rows, dtype=np.int64).reshape(len(brokers), len(RESOURCES))
    return np.where(np.array(weights) > 0, limits, 0)


def _mobilities(
    names: Sequence[str],
    policies: Policies,
    settings: Settings,
    eligibility: Eligibility,
    assignment: PoolAssignment,
    pool: str,
) -> Ints:
    excluded = policies.excluded_namespaces | frozenset(settings.shedding_excluded_namespaces)
    spanning = _groups_that_span_pools(policies, eligibility, assignment, pool)
    mobility = []
    for name in names:
        if is_system_namespace(name):
            mobility.append(Mobility.SYSTEM)
        elif name in excluded:
            mobility.append(Mobility.EXCLUDED)
        elif group_of(name, policies) in spanning:
            mobility.append(Mobility.GROUP_SPANS_POOLS)
        else:
            mobility.append(Mobility.FREE)
    return np.array(mobility, dtype=np.int64)


def _groups_that_span_pools(
    policies: Policies, eligibility: Eligibility, assignment: PoolAssignment, pool: str
) -> frozenset[str]:
    """Groups with a namespace in another pool. One pool alone cannot count them, so it moves none for balance.

    A namespace that no live broker may own is in no pool: its bundles stay where they are.
    """
    spanning = set()
    for namespace in policies.anti_affinity:
        homes = {assignment.pool_of_broker[broker] for broker in eligibility.brokers_for(namespace)}
        if homes - {pool}:
            spanning.add(group_of(namespace, policies))
    return frozenset(group for group in spanning if group is not None)


def pool_problems(
    brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> Iterator[PoolProblem]:
    """Build the problems of all pools, sorted by name."""
    for pool, rows in cut_into_pools(brokers, bundles, policies):
        yield build_problem(pool, brokers, rows, policies, settings)
