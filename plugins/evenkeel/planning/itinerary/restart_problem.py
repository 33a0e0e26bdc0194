"""A rolling restart as arrays: all pools of a cluster side by side, because one order of brokers covers them all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.itinerary.results import RestartRequest
from evenkeel.planning.problem.anti_affinity import NO_GROUP, domains_of
from evenkeel.planning.problem.columns import Bools, BundleColumns, Ints, Objects
from evenkeel.planning.problem.pools import cut_into_pools, find_unreported, is_live
from evenkeel.planning.problem.problem import Mobility, PoolProblem, build_problem, limits_of, number

# A group over several pools is counted here as a whole, so its bundles may move.
_MOVABLE = (Mobility.FREE, Mobility.GROUP_SPANS_POOLS)


@dataclass(frozen=True, slots=True)
class RestartProblem:
    """A cluster as arrays; brokers are sorted by name, bundles by pool and name, resources as in `RESOURCES`.

    A limit of 0 is unknown. `place` is a broker's fixed place in the order, from 1, or 0. `receivers` tells for each
    class of bundles which brokers may receive them: by isolation policies, state, version filter and settings, all as
    the snapshot has them. Bundles of Pulsar's own namespaces (`is_system`) come and go with their broker: they count
    as its load, and do not keep it from being empty. `pool_of_broker` is -1 for a broker in no pool.
    """

    broker_ids: tuple[str, ...]
    is_registered: Bools
    is_unreported: Bools
    is_left_alone: Bools
    is_restarted: Bools
    place: Ints
    limit: Ints
    domain: Ints
    pools: tuple[str, ...]
    pool_of_broker: Ints
    bundles: Objects
    pool: Ints
    owner: Ints
    load: Ints
    topics: Ints
    group_names: tuple[str, ...]
    group: Ints
    mobility: Ints
    is_system: Bools
    is_movable: Bools
    bundle_class: Ints
    receivers: Bools

    def used(self, owner: Ints) -> Ints:
        """The load per broker and resource with these owners."""
        used = np.zeros(self.limit.shape, dtype=np.int64)
        np.add.at(used, owner, self.load)
        return used

    def destinations(self, rows: Ints) -> Bools:
        """For each of these bundles, which brokers other than its present owner may receive it."""
        allowed: Bools = self.receivers[self.bundle_class[rows]].copy()
        allowed[np.arange(len(rows)), self.owner[rows]] = False
        return allowed

    def reach(self, rows: Ints) -> Bools:
        """For each of these bundles, on which brokers it can ever be: its present owner, and if it may move, others."""
        reach: Bools = self.receivers[self.bundle_class[rows]] & self.is_movable[rows, None]
        reach[np.arange(len(rows)), self.owner[rows]] = True
        return reach

    @property
    def departing(self) -> Ints:
        """The bundles that have to leave a broker that is restarted."""
        return np.flatnonzero(self.is_restarted[self.owner] & ~self.is_system)

    @property
    def takes_part(self) -> Bools:
        """The restarted brokers, and all that belong to a pool of these or of their bundles, or own bundles of it."""
        pools = np.union1d(self.pool_of_broker[self.is_restarted], self.pool[self.departing])
        pools = pools[pools >= 0]
        part: Bools = self.is_restarted | np.isin(self.pool_of_broker, pools)
        part[self.owner[np.isin(self.pool, pools)]] = True
        return part


def build_restart_problem(
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    request: RestartRequest,
) -> RestartProblem:
    """Build the arrays of a whole snapshot, and refuse requests with unknown brokers or impossible places."""
    nodes = sorted(brokers, key=lambda broker: broker.broker_id)
    index = {broker.broker_id: row for row, broker in enumerate(nodes)}
    unreported = find_unreported(nodes)
    problems = [
        build_problem(pool, nodes, rows, policies, settings, unreported)
        for pool, rows in cut_into_pools(nodes, bundles, policies)
    ]
    at = [np.array([index[name] for name in problem.broker_ids], dtype=np.int64) for problem in problems]
    pool_of_broker = np.full(len(nodes), -1, dtype=np.int64)
    for pool, (problem, its) in enumerate(zip(problems, at, strict=True)):
        pool_of_broker[its[problem.is_member]] = pool
    is_left_alone = np.array([b.broker_id in settings.brokers_left_alone for b in nodes], dtype=bool)
    is_registered = np.array([is_live(b) for b in nodes], dtype=bool)
    is_restarted = _choose_restarted(request, index, is_registered & ~is_left_alone)
    mobility = _join([problem.mobility for problem in problems])
    namespaces, of_row = number(name for problem in problems for name in problem.namespaces)
    is_system = np.array([is_system_namespace(name) for name in namespaces], dtype=bool)[of_row]
    group_names, group = _join_groups(problems)
    class_offset = np.cumsum([0, *(len(problem.eligible) for problem in problems)])
    return RestartProblem(
        broker_ids=tuple(index),
        is_registered=is_registered,
        is_unreported=np.array([b.broker_id in unreported for b in nodes], dtype=bool),
        is_left_alone=is_left_alone,
        is_restarted=is_restarted,
        place=_read_places(request, index, int(is_restarted.sum())),
        limit=limits_of(nodes, settings),
        domain=number(domains_of(nodes, policies))[1],
        pools=tuple(problem.pool for problem in problems),
        pool_of_broker=pool_of_broker,
        bundles=np.concatenate([np.zeros(0, dtype=object), *(problem.bundles for problem in problems)]),
        pool=np.repeat(np.arange(len(problems)), [len(problem.bundles) for problem in problems]),
        owner=_join([its[problem.owner] for problem, its in zip(problems, at, strict=True)]),
        load=np.concatenate([np.zeros((0, 3), dtype=np.int64), *(problem.load for problem in problems)]),
        topics=_join([problem.topics for problem in problems]),
        group_names=group_names,
        group=group,
        mobility=mobility,
        is_system=is_system,
        is_movable=np.isin(mobility, _MOVABLE) & ~is_system,
        bundle_class=_join([p.eligibility_class + offset for p, offset in zip(problems, class_offset, strict=False)]),
        receivers=_join_receivers(problems, at, len(nodes)),
    )


def _choose_restarted(request: RestartRequest, index: dict[str, int], by_default: Bools) -> Bools:
    chosen = by_default.copy()
    if request.broker_ids is not None:
        chosen[:] = False
    for name in sorted({*(request.broker_ids or ()), *request.places}):
        if name not in index:
            raise InputError(f"{name} is not a broker of the snapshot", "name brokers as the snapshot does, host:port")
        chosen[index[name]] = True
    if not chosen.any():
        raise InputError("there is no broker to restart", "name one that is registered and not left alone")
    return chosen


def _read_places(request: RestartRequest, index: dict[str, int], restarted: int) -> Ints:
    place = np.zeros(len(index), dtype=np.int64)
    for name, its_place in sorted(request.places.items()):
        if its_place > restarted:
            raise InputError(
                f"{name} cannot be number {its_place} in the order, because {restarted} brokers are restarted",
                f"give it a place from 1 to {restarted}",
            )
        place[index[name]] = its_place
    return place


def _join(columns: Sequence[Ints]) -> Ints:
    return np.concatenate([np.zeros(0, dtype=np.int64), *columns])


def _join_groups(problems: Sequence[PoolProblem]) -> tuple[tuple[str, ...], Ints]:
    """Number the anti-affinity groups over all pools: several pools may hold bundles of the same group."""
    names, of_each = number(name for problem in problems for name in problem.group_names)
    joined, offset = [], 0
    for problem in problems:
        mine = of_each[offset : offset + len(problem.group_names)]
        # The last entry stands for NO_GROUP, which is -1.
        joined.append(np.append(mine, NO_GROUP)[problem.group])
        offset += len(problem.group_names)
    return tuple(names), _join(joined)


def _join_receivers(problems: Sequence[PoolProblem], at: Sequence[Ints], brokers: int) -> Bools:
    rows = [np.zeros((0, brokers), dtype=bool)]
    for problem, its in zip(problems, at, strict=True):
        wide = np.zeros((len(problem.eligible), brokers), dtype=bool)
        wide[:, its] = problem.eligible & problem.can_receive
        rows.append(wide)
    return np.concatenate(rows)
