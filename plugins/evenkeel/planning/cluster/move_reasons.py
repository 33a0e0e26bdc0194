"""Explain, with figures, why each bundle of the final plan moves, and why it goes where it goes.

The sentences are made once budgets and waves have decided what is in the plan, so that their figures are those of its
tables. They are stored in the steps of a plan and are part of the plan id.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.cluster_brokers import ClusterBroker, PooledMove
from evenkeel.planning.cluster.selection import Selection
from evenkeel.planning.explaining.bundle_ranks import Grounds
from evenkeel.planning.explaining.words import count, limit_name, percent, points
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.problem.columns import Bools, Floats, Ints, Vector

# Moves are compared with all brokers in chunks of this size, to limit memory.
MOVES_AT_A_TIME = 1024


def explain_moves(
    plans: Iterable[PoolPlan],
    brokers: Mapping[str, ClusterBroker],
    groups: Mapping[tuple[str, str], int],
    selection: Selection,
    after: Mapping[str, Vector],
    settings: Settings,
) -> dict[str, str]:
    """The reason of every chosen move, by bundle; figures are from before the plan unless the sentence says so.

    `groups` counts the bundles of anti-affinity groups by group and broker id before the plan, `after` is the load of
    every broker after it.
    """
    of_pool: dict[str, list[PooledMove]] = defaultdict(list)
    for move in selection.moves:
        of_pool[move.pool].append(move)
    arrivals = Counter(move.destination for move in selection.moves)
    # A broker keeps such a bundle whole, so its bundles are not those that the ranks were counted over.
    unsplit = frozenset(split.source for split, _ in selection.splits.dropped)
    crowds = _Crowds(brokers, groups, selection.moves)
    reasons: dict[str, str] = {}
    for plan in plans:
        moves = of_pool[plan.pool]
        reasons |= {one.move.bundle: one.move.reason for one in moves if one.move.grounds is None}
        grounded = [one for one in moves if one.move.grounds is not None]
        state = _PoolState(plan, brokers, after, selection.moves, crowds, settings)
        for start in range(0, len(grounded), MOVES_AT_A_TIME):
            chunk = grounded[start : start + MOVES_AT_A_TIME]
            for one, home in zip(chunk, state.compare_brokers(chunk), strict=True):
                grounds = one.move.grounds
                assert grounds is not None
                source, destination = brokers[one.source], brokers[one.destination]
                why_it = _why_it(one, grounds, source, after, arrivals, one.source in unsplit, settings.objective)
                why_there = _why_there(home, destination, after[destination.broker_id], grounds.resource)
                reasons[one.move.bundle] = f"{why_it}; {why_there}"
    return reasons


def _why_it(
    pooled: PooledMove,
    grounds: Grounds,
    source: ClusterBroker,
    after: Mapping[str, Vector],
    arrivals: Mapping[str, int],
    is_unranked: bool,
    objective: str,
) -> str:
    if grounds.must_move:
        return grounds.must_move
    ends_at = after[source.broker_id]
    # Load of other pools can put a broker above its band in a resource that its own pool did not look at.
    resources = [index for index in (grounds.resource, 0, 1, 2) if pooled.move.load[index]]
    pressures = ((index, _pressure(source, ends_at, index)) for index in resources)
    resource, pressure = next((found for found in pressures if found[1]), (grounds.resource, ""))
    if not pressure:
        many = count(arrivals[source.broker_id], "bundle")
        return f"makes room on {source.broker_id} for {many} that this plan brings there"
    share = percent(pooled.move.load[resource], source.limit[resource])
    bundle = f"this bundle uses {share} of that limit and has {count(pooled.move.sessions, 'session')}"
    if is_unranked or not grounds.may_move or resource != grounds.resource:
        return f"{pressure}; {bundle}"
    is_needed = any(
        band and load + own > band for load, own, band in zip(ends_at, pooled.move.load, source.band_limit, strict=True)
    )
    return f"{pressure}; {bundle}: {_why_not_another(objective, grounds, is_needed)}"


def _pressure(source: ClusterBroker, ends_at: Vector, resource: int) -> str:
    """Say how full the broker is that a bundle leaves; empty if it is neither above its band nor above the line."""
    used, limit = source.used[resource], source.limit[resource]
    line, band = source.overload_limit[resource], source.band_limit[resource]
    above = []
    if limit and used > line:
        above.append(f"above the overload line ({percent(line, limit)})")
    if limit and band and used > band:
        above.append(f"{points(used - band, limit)} above the end of its band ({percent(band, limit)})")
    if not above:
        return ""
    return (
        f"{source.broker_id} uses {percent(used, limit)} of its {limit_name(resource)}, {' and '.join(above)}, "
        f"and {percent(ends_at[resource], limit)} after this plan"
    )


def _why_not_another(objective: str, grounds: Grounds, is_needed: bool) -> str:
    """Say why this bundle was chosen among those of its broker that may move."""
    others, larger, cheaper = grounds.may_move, grounds.larger, grounds.cheaper
    if others == 1:
        return "the only one there that may move"
    if larger == 0 and objective != "disruption":
        return f"none of the {others:,} there that may move is larger"
    if cheaper == 0 and objective != "moves":
        return f"none of the {others:,} there that may move has fewer sessions for its load"
    by_size = objective == "moves" or (objective == "balanced" and larger <= cheaper)
    rank = larger if by_size else cheaper
    if 2 * rank < others:
        if by_size:
            better = "is larger" if rank == 1 else "are larger"
        else:
            better = "has fewer sessions for its load" if rank == 1 else "have fewer sessions for their load"
        return f"only {rank:,} of the {others:,} there that may move {better}"
    needed = ", and the broker would end above its band without its move" if is_needed else ""
    return f"one of the {others:,} there that may move{needed}"


@dataclass(frozen=True, slots=True)
class Homes:
    """Where a bundle could have gone, given the final plan.

    `eligible` counts the other brokers that may receive it. `with_room` counts those of them that have room for it
    inside their band and below the overload line in the end; the chosen one counts if it ends up so with the bundle.
    `emptier` are those of them that would end up less full with it than the chosen one does.
    """

    eligible: int
    with_room: int
    emptier: int
    is_inside: bool


def _why_there(home: Homes, chosen: ClusterBroker, ends_at: Vector, resource: int) -> str:
    if not home.is_inside:
        # Speak of what takes it out of its band.
        resource = max(
            chosen.outside_band(ends_at), key=lambda index: ends_at[index] / chosen.limit[index], default=resource
        )
    name, outcome = chosen.broker_id, _outcome(chosen, ends_at, resource)
    if home.eligible <= 1:
        return f"{name} is the only other eligible broker{outcome}"
    brokers = f"{home.eligible:,} brokers are eligible"
    if home.is_inside:
        if home.with_room == 1:
            return f"{brokers}, only {name} has room{outcome}"
        least = "ends up least loaded" if not home.emptier else "is one of them"
        return f"{brokers}, {home.with_room:,} have room; {name} {least}{outcome}"
    have = "none has" if not home.with_room else "1 has" if home.with_room == 1 else f"{home.with_room:,} have"
    own = "its" if home.with_room < 2 else "their"
    return f"{brokers}, {have} room inside {own} band; {name} takes it{outcome}"


def _outcome(chosen: ClusterBroker, ends_at: Vector, resource: int) -> str:
    """Say how full the new owner is after the plan."""
    limit, band, line = chosen.limit[resource], chosen.band_limit[resource], chosen.overload_limit[resource]
    if not limit:
        return f"; its {limit_name(resource)} is unknown"
    change = f": from {percent(chosen.used[resource], limit)} to {percent(ends_at[resource], limit)} of its"
    end = f", where the band ends at {percent(band, limit)}" if band else ""
    if band and ends_at[resource] > band:
        end += f" and the overload line is {percent(line, limit)}"
    return f"{change} {limit_name(resource)}{end}"


class _Crowds:
    """Bundles of anti-affinity groups if everything has arrived and nothing has left, and the peaks before the plan."""

    def __init__(
        self,
        brokers: Mapping[str, ClusterBroker],
        groups: Mapping[tuple[str, str], int],
        moves: Iterable[PooledMove],
    ) -> None:
        self._domain = {name: broker.domain for name, broker in brokers.items()}
        self._on_broker, self._in_domain = Counter(groups), Counter[tuple[str, str]]()
        for (group, broker), bundles in groups.items():
            self._in_domain[group, self._domain[broker]] += bundles
        self._broker_peak, self._domain_peak = _peaks(self._on_broker), _peaks(self._in_domain)
        for one in moves:
            if one.move.group is not None:
                self._on_broker[one.move.group, one.destination] += 1
                if self._domain[one.source] != self._domain[one.destination]:
                    self._in_domain[one.move.group, self._domain[one.destination]] += 1

    def has_room(self, group: str, source: str, broker: str) -> bool:
        """Whether one more bundle of the group from `source` raises neither peak."""
        domain = self._domain[broker]
        keeps_domain = domain == self._domain[source] or self._in_domain[group, domain] < self._domain_peak[group]
        return self._on_broker[group, broker] < self._broker_peak[group] and keeps_domain


def _peaks(counts: Mapping[tuple[str, str], int]) -> Counter[str]:
    peaks: Counter[str] = Counter()
    for (group, _), bundles in counts.items():
        peaks[group] = max(peaks[group], bundles)
    return peaks


class _PoolState:
    """The brokers of one pool as the final plan leaves them."""

    def __init__(
        self,
        plan: PoolPlan,
        brokers: Mapping[str, ClusterBroker],
        after: Mapping[str, Vector],
        moves: Iterable[PooledMove],
        crowds: _Crowds,
        settings: Settings,
    ) -> None:
        self._plan, self._crowds = plan, crowds
        self._names = [row.broker_id for row in plan.brokers]
        self._place = {name: place for place, name in enumerate(self._names)}
        mine = [brokers[name] for name in self._names]
        self._used: Ints = np.array([after[name] for name in self._names], dtype=np.int64).reshape(-1, 3)
        self._most: Ints = np.array([broker.arrival_ceiling for broker in mine], dtype=np.int64).reshape(-1, 3)
        band: Ints = np.array([broker.band_limit for broker in mine], dtype=np.int64).reshape(-1, 3)
        self._per_band: Floats = np.where(band > 0, 1.0 / np.maximum(band, 1), 0.0)
        self._has_limit: Bools = np.array([any(broker.limit) for broker in mine], dtype=bool)
        arriving = Counter[str]()
        for one in moves:
            arriving[one.destination] += one.move.topics
        topics = [broker.topics + arriving[broker.broker_id] for broker in mine]
        self._topic_room: Ints = settings.broker_max_topics - 1 - np.array(topics, dtype=np.int64)

    def compare_brokers(self, moves: Sequence[PooledMove]) -> list[Homes]:
        """Compare the new owner of each move with the brokers that could have received the bundle instead."""
        rows = np.arange(len(moves))
        source = np.array([self._place[one.source] for one in moves], dtype=np.intp)
        chosen = np.array([self._place[one.destination] for one in moves], dtype=np.intp)
        load: Ints = np.array([one.move.load for one in moves], dtype=np.int64)
        topics: Ints = np.array([one.move.topics for one in moves], dtype=np.int64)
        eligible = self._eligible(moves)
        eligible[rows, source] = False
        eligible[rows, chosen] = True
        is_open = eligible & self._has_limit & (topics[:, None] <= self._topic_room)
        fullness = np.zeros(eligible.shape)
        for resource in range(load.shape[1]):
            is_open &= load[:, resource, None] + self._used[:, resource] <= self._most[:, resource]
            with_it = (load[:, resource, None] + self._used[:, resource]) * self._per_band[:, resource]
            np.maximum(fullness, with_it, out=fullness)
        for place, one in enumerate(moves):
            if one.move.group is not None:
                for broker in np.flatnonzero(is_open[place]).tolist():
                    is_open[place, broker] = self._crowds.has_room(one.move.group, one.source, self._names[broker])
        # The chosen broker already carries the bundle.
        is_within = np.logical_and.reduce(self._used <= self._most, axis=1)
        is_inside: Bools = is_within[chosen] & self._has_limit[chosen]
        is_open[rows, chosen] = is_inside
        own = (self._used * self._per_band).max(axis=1)[chosen]
        emptier = is_open & (fullness < own[:, None])
        emptier[rows, chosen] = False
        columns = (eligible.sum(axis=1), is_open.sum(axis=1), emptier.sum(axis=1), is_inside)
        return [Homes(*row) for row in zip(*(column.tolist() for column in columns), strict=True)]

    def _eligible(self, moves: Sequence[PooledMove]) -> Bools:
        classes: Bools = np.zeros((len(self._plan.receivers), len(self._names)), dtype=bool)
        for number, receivers in enumerate(self._plan.receivers):
            classes[number, list(receivers)] = True
        kinds = [0 if one.move.grounds is None else one.move.grounds.receivers for one in moves]
        eligible: Bools = classes[kinds]
        return eligible
