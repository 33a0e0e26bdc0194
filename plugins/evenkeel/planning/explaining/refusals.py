"""Says what was left undone, and which rule refused it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from evenkeel.model.plan import Rejection
from evenkeel.model.snapshot import BrokerState
from evenkeel.planning.anti_affinity import NO_GROUP
from evenkeel.planning.arrays import Bools, Ints
from evenkeel.planning.explaining.words import count, percent, resource_name
from evenkeel.planning.floors import Band
from evenkeel.planning.pools import NO_POOL
from evenkeel.planning.problem import Mobility, PoolProblem
from evenkeel.planning.search.placement import Placement

# Of a broker that stays hot, this many of its largest bundles are explained one by one.
EXPLAINED_BUNDLES = 10
# A sentence about many namespaces names this many of them.
NAMED_NAMESPACES = 3

NO_ELIGIBLE_BROKER = "no-eligible-broker"
DRAINING = "draining"
TOO_BIG = "too-big"

PINNED = {
    Mobility.EXCLUDED: ("excluded-namespace", "its namespace is excluded from moves by the settings or in Pulsar"),
    Mobility.SYSTEM: ("system-namespace", "Pulsar pins its namespace to its place"),
    Mobility.IN_FLIGHT: ("in-flight", "it was changing hands or splitting when the snapshot was taken"),
    Mobility.GROUP_SPANS_POOLS: (
        "anti-affinity",
        "its anti-affinity group has namespaces in several pools, and one pool alone cannot count them",
    ),
}


class Obstacle(NamedTuple):
    """A rule that shuts brokers out; in words where it shuts out all, and where it does so together with others."""

    rule: str
    shut: Bools
    of_all: str
    of_some: str


def explain_refusals(placement: Placement, band: Band, unrepaired: Bools) -> list[Rejection]:
    """The rejections of a pool: what holds for all of it, bundles that must move and cannot, brokers that stay hot."""
    rejections = list(_explain_pool(placement.problem))
    rejections += [_unrepaired(placement, row) for row in np.flatnonzero(unrepaired).tolist()]
    above = np.maximum(placement.used - band.cap, 0)
    above[~placement.takes_part] = 0
    for broker in np.flatnonzero(above.any(axis=1)).tolist():
        for resource in np.flatnonzero(above[broker]).tolist():
            rejections.append(_hot_broker(placement, band, broker, resource))
        rejections += _hot_bundles(placement, band, broker)
    return rejections


def _explain_pool(problem: PoolProblem) -> Iterator[Rejection]:
    """What keeps a pool as a whole from being planned: nobody may own its namespaces, or nobody may receive."""
    if problem.pool == NO_POOL:
        for number, policy in enumerate(problem.class_policies):
            rows = np.flatnonzero(problem.eligibility_class == number)
            who = f"isolation policy {policy} names no live broker" if policy else "every live broker is reserved"
            detail = (
                f"{who}, so that none may own {_list_namespaces(problem, rows)}: "
                f"{count(len(rows), 'bundle')} can go nowhere"
            )
            yield Rejection(problem.pool, "pool", None, None, NO_ELIGIBLE_BROKER, detail)
    elif len(problem.bundles) and not problem.can_receive.any():
        states = [state for state, is_member in zip(problem.states, problem.is_member, strict=True) if is_member]
        counted = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
        is_drained = bool(problem.must_be_emptied[problem.is_member].all())
        rule = DRAINING if is_drained else "no-active-broker"
        detail = f"no broker of the pool may receive a bundle ({counted}), so that none can be moved"
        yield Rejection(problem.pool, "pool", None, None, rule, detail)


def _list_namespaces(problem: PoolProblem, rows: Ints) -> str:
    names = sorted({str(name) for name in problem.namespaces[rows]})
    more = f" and {len(names) - NAMED_NAMESPACES:,} more namespaces" if len(names) > NAMED_NAMESPACES else ""
    return ", ".join(names[:NAMED_NAMESPACES]) + more


def _unrepaired(placement: Placement, row: int) -> Rejection:
    problem = placement.problem
    owner = problem.broker_ids[int(problem.owner[row])]
    ceiling = np.maximum(placement.line, placement.used_before)
    line = Obstacle(
        "overload-line",
        ~_has_room(placement, row, ceiling),
        "every broker that may own it would go above the overload line with it",
        "would go above the overload line",
    )
    rule, why = find_refusal(placement, row, ceiling, line) or (
        "no-gain",
        "nothing that was tried found the room for it that others have in the end",
    )
    return Rejection(
        problem.pool, "bundle", problem.bundles[row], owner, rule, f"{owner} may not keep the bundle, but {why}"
    )


def _hot_broker(placement: Placement, band: Band, broker: int, resource: int) -> Rejection:
    problem = placement.problem
    limit, cap = int(problem.limit[broker, resource]), int(band.cap[broker, resource])
    used, before = int(placement.used[broker, resource]), int(placement.used_before[broker, resource])
    detail = (
        f"stays at {percent(used, limit)} of its {resource_name(resource)} (before: {percent(before, limit)}), "
        f"where the band ends at {percent(cap, limit)}: no moves or exchanges were found that bring it lower"
    )
    return Rejection(problem.pool, "broker", None, problem.broker_ids[broker], "band", detail)


def _hot_bundles(placement: Placement, band: Band, broker: int) -> Iterator[Rejection]:
    """Why the largest bundles of a broker that stays hot were left alone."""
    problem = placement.problem
    above = np.maximum(placement.used[broker] - band.cap[broker], 0)
    resource = int(np.argmax(above / np.maximum(placement.cap[broker], 1)))
    mine = np.flatnonzero((placement.owner == broker) & (problem.load[:, resource] > 0))
    largest = mine[np.lexsort((mine, -problem.load[mine, resource]))][:EXPLAINED_BUNDLES]
    for row in largest.tolist():
        rule, why = _why_left_alone(placement, row)
        carries = percent(int(problem.load[row, resource]), int(problem.limit[broker, resource]))
        detail = f"carries {carries} of the {resource_name(resource)} of a broker that stays hot: {why}"
        yield Rejection(problem.pool, "bundle", problem.bundles[row], problem.broker_ids[broker], rule, detail)


def _why_left_alone(placement: Placement, row: int) -> tuple[str, str]:
    problem = placement.problem
    if placement.owner[row] != problem.owner[row]:
        return "moved-here", "the plan brings it here, where it does less harm than where it was"
    band = Obstacle(
        "band",
        # Without a known limit nobody can say that it has room.
        ~_has_room(placement, row, placement.receive_cap) | ~placement.receives,
        "none of the brokers that may own it has room for it inside the band",
        "would have no room for it inside the band",
    )
    found = find_refusal(placement, row, placement.receive_cap, band)
    if found is not None:
        return found
    return "no-gain", "others have room for it, but nothing that was tried is better with it moved"


def _has_room(placement: Placement, row: int, ceiling: Ints) -> Bools:
    room: Bools = (placement.used + placement.problem.load[row] <= ceiling).all(axis=1)
    return room


def find_refusal(placement: Placement, row: int, ceiling: Ints, *more: Obstacle) -> tuple[str, str] | None:
    """The first rule, in the order of Pulsar's filters, that keeps a bundle from every other broker; None for room.

    Where no rule does so alone, all that do so together are named; `more` come after those that are always looked at.
    """
    problem = placement.problem
    mobility = Mobility(int(problem.mobility[row]))
    if mobility != Mobility.FREE:
        return PINNED[mobility]
    kind = int(problem.eligibility_class[row])
    is_other = np.ones(len(problem.broker_ids), dtype=bool)
    is_other[[int(problem.owner[row]), int(placement.owner[row])]] = False
    allowed = problem.isolated[kind] & is_other
    if not allowed.any():
        policy = problem.class_policies[kind]
        by = f"isolation policy {policy}" if policy else "the isolation policies of others"
        return NO_ELIGIBLE_BROKER, f"no other live broker may own {problem.namespaces[row]} by {by}"
    serving = problem.serving[kind] & is_other
    if not serving.any():
        others = count(int(allowed.sum()), "other broker")
        return "persistent-topics", f"the {others} that may own it would have to serve persistent topics"
    receiving = problem.eligible[kind] & problem.can_receive & is_other
    if not receiving.any():
        return _why_not_receiving(problem, serving)
    return _name_binding(receiving, [*_find_obstacles(placement, row, receiving, ceiling), *more])


def _name_binding(receiving: Bools, obstacles: Sequence[Obstacle]) -> tuple[str, str] | None:
    """The obstacle that shuts everyone out, or all that do so together under the name of the one that does most."""
    for obstacle in obstacles:
        if not (receiving & ~obstacle.shut).any():
            return obstacle.rule, obstacle.of_all
    left, binding = receiving.copy(), []
    for obstacle in obstacles:
        binding.append((int((left & obstacle.shut).sum()), obstacle))
        left &= ~obstacle.shut
    if left.any():
        return None
    parts = [f"{number:,} {obstacle.of_some}" for number, obstacle in binding if number]
    most = max(binding, key=lambda bound: bound[0])[1]
    others = count(int(receiving.sum()), "other broker")
    return most.rule, f"of the {others} that may own it {', '.join(parts[:-1])} and {parts[-1]}"


def _find_obstacles(placement: Placement, row: int, receiving: Bools, ceiling: Ints) -> Iterator[Obstacle]:
    """What may shut out brokers that could receive the bundle, whatever they carry now."""
    problem = placement.problem
    others = count(int(receiving.sum()), "other broker")
    topics, limit = count(int(problem.topics[row]), "topic"), count(placement.topic_limit, "topic")
    yield Obstacle(
        "topic-limit",
        placement.topics + problem.topics[row] >= placement.topic_limit,
        f"with its {topics} the {others} that may own it would reach the limit of {limit}",
        f"would reach the limit of {limit} with its {topics}",
    )
    group = int(problem.group[row])
    if group != NO_GROUP:
        crowd = f"crowd its anti-affinity group {problem.group_names[group]} more than it is now"
        yield Obstacle(
            "anti-affinity",
            ~placement.groups.has_room(group, int(problem.owner[row])),
            f"it would {crowd} on the {others} that may own it",
            f"would {crowd}",
        )
    yield Obstacle(
        TOO_BIG,
        ~(problem.load[row] <= ceiling).all(axis=1),
        _why_too_big(placement, row, receiving, ceiling),
        "would be too small for it even if empty",
    )


def _why_not_receiving(problem: PoolProblem, eligible: Bools) -> tuple[str, str]:
    states = sorted({state for state, may in zip(problem.states, eligible, strict=True) if may})
    others = count(int(eligible.sum()), "other broker")
    if problem.must_be_emptied[eligible].all():
        return DRAINING, f"the {others} that may own it must be emptied ({', '.join(states)})"
    if states == [BrokerState.ACTIVE]:
        return "version-filter", f"the {others} that may own it would have to run the latest version"
    if BrokerState.ACTIVE in states:
        states.remove(BrokerState.ACTIVE)
        why = f"would have to run the latest version, or cannot receive ({', '.join(states)})"
        return "version-filter", f"the {others} that may own it {why}"
    return "no-active-broker", f"the {others} that may own it cannot receive ({', '.join(states)})"


def _why_too_big(placement: Placement, row: int, candidates: Bools, ceiling: Ints) -> str:
    """How much of the candidate that suits it best, were it empty, a bundle would take."""
    problem = placement.problem
    share = np.where(ceiling > 0, problem.load[row] / np.maximum(ceiling, 1), np.inf)[candidates]
    best = int(np.flatnonzero(candidates)[np.argmin(share.max(axis=1))])
    resource = int(np.argmax(problem.load[row] / np.maximum(ceiling[best], 1)))
    limit = int(problem.limit[best, resource])
    return (
        f"it takes {percent(int(problem.load[row, resource]), limit)} of the {resource_name(resource)} of "
        f"{problem.broker_ids[best]}, which even empty may be filled to {percent(int(ceiling[best, resource]), limit)} "
        "only: a split would help"
    )
