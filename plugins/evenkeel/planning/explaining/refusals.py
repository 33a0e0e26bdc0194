"""Explain what a pool's plan leaves undone, and which rule refused it.

The sentences are stored in the table of rejections and are part of the plan id. Some of them hold whatever becomes of
the pool's moves; the others hold only if budgets and waves leave out none of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from evenkeel.model.plan import Rejection
from evenkeel.model.snapshot import BrokerState
from evenkeel.planning.explaining.words import count, limit_name, list_some, percent
from evenkeel.planning.problem.anti_affinity import NO_GROUP
from evenkeel.planning.problem.band import Band
from evenkeel.planning.problem.columns import Bools, Ints
from evenkeel.planning.problem.pools import NO_POOL
from evenkeel.planning.problem.problem import Mobility, PoolProblem
from evenkeel.planning.search.placement import Placement

# For a broker that stays hot, this many of its largest bundles are explained one by one.
EXPLAINED_BUNDLES = 10

NO_ELIGIBLE_BROKER = "no-eligible-broker"
DRAINING = "draining"
NO_REPORT = "no-load-report"
TOO_BIG = "too-big"
LEFT_ALONE = "left-alone"

PINNED = {
    Mobility.EXCLUDED: ("excluded-namespace", "its namespace is excluded from moves by the settings or in Pulsar"),
    Mobility.SYSTEM: ("system-namespace", "Pulsar pins its namespace to its place"),
    Mobility.UNREPORTED: (
        NO_REPORT,
        "nobody knows what it carries: its broker, or one of its pool, gave no load report",
    ),
    Mobility.PINNED: ("pinned-bundle", "it is pinned to its broker by the settings"),
    Mobility.LEFT_ALONE: (LEFT_ALONE, "its broker is to be left alone by the settings"),
    Mobility.IN_FLIGHT: ("in-flight", "it was changing hands or splitting when the snapshot was taken"),
    Mobility.GROUP_SPANS_POOLS: (
        "anti-affinity",
        "its anti-affinity group has namespaces in several pools, and one pool alone cannot count them",
    ),
}


class StaysHot(NamedTuple):
    """The rule of the rejections of brokers that end up above their band, and why nothing brings them lower."""

    rule: str
    why: str


STAYS_HOT = StaysHot("band", "no moves or exchanges were found that bring it lower")


class Obstacle(NamedTuple):
    """A rule that excludes brokers: as a sentence if it excludes all of them, and as part of one if it is not alone.

    `is_lasting` means that it excludes them wherever other bundles go.
    """

    rule: str
    shut: Bools
    of_all: str
    of_some: str
    is_lasting: bool = False


class Refusal(NamedTuple):
    """Why a bundle stays: the rule, the sentence, and whether both hold wherever other bundles go."""

    rule: str
    why: str
    is_lasting: bool = True


@dataclass(frozen=True, slots=True)
class PoolRefusals:
    """The rejections of a pool: those that hold in any case, and those that hold only if no move is left out.

    If moves are left out, `if_cut` takes the place of `if_whole`.
    """

    lasting: tuple[Rejection, ...] = ()
    if_whole: tuple[Rejection, ...] = ()
    if_cut: tuple[Rejection, ...] = ()


def explain_refusals(placement: Placement, band: Band, unrepaired: Bools) -> PoolRefusals:
    """List what the whole pool, bundles that must move but cannot, and the bundles of hot brokers were refused."""
    lasting, if_whole, if_cut = list(_explain_pool(placement.problem)), [], []
    for row in np.flatnonzero(unrepaired).tolist():
        found = _why_unrepaired(placement, row)
        if found.is_lasting:
            lasting.append(_unrepaired(placement.problem, row, found.rule, f"but {found.why}"))
        else:
            if_whole.append(_unrepaired(placement.problem, row, found.rule, f"but {found.why}"))
            if_cut.append(_unrepaired(placement.problem, row, found.rule, "and this plan does not move it"))
    above = np.maximum(placement.used - band.cap, 0)
    above[~placement.takes_part] = 0
    for broker in np.flatnonzero(above.any(axis=1)).tolist():
        if_whole += _hot_bundles(placement, band, broker)
    return PoolRefusals(tuple(lasting), tuple(if_whole), tuple(if_cut))


def _explain_pool(problem: PoolProblem) -> Iterator[Rejection]:
    """Explain why a pool cannot be planned at all: no broker may own its namespaces, or none may receive."""
    if problem.pool == NO_POOL:
        for number, policy in enumerate(problem.class_policies):
            rows = np.flatnonzero(problem.eligibility_class == number)
            names = sorted({str(name) for name in problem.namespaces[rows]})
            who = f"isolation policy {policy} names no live broker" if policy else "every live broker is reserved"
            detail = (
                f"{who}, so that none may own {list_some(names, 'namespaces')}: "
                f"{count(len(rows), 'bundle')} can go nowhere"
            )
            yield Rejection(problem.pool, "pool", None, None, NO_ELIGIBLE_BROKER, detail)
    elif problem.unreported:
        who = list_some(problem.unreported, "brokers")
        detail = f"the pool is left as it is, because nobody knows what {who} carries: there is no fresh load report"
        yield Rejection(problem.pool, "pool", None, problem.unreported[0], NO_REPORT, detail)
    elif len(problem.bundles) and not problem.can_receive.any():
        states = [state for state, is_member in zip(problem.states, problem.is_member, strict=True) if is_member]
        counted = ", ".join(f"{states.count(state)} {state}" for state in sorted(set(states)))
        is_drained = bool(problem.must_be_emptied[problem.is_member].all())
        rule = DRAINING if is_drained else "no-active-broker"
        detail = f"no broker of the pool may receive a bundle ({counted}), so that none can be moved"
        yield Rejection(problem.pool, "pool", None, None, rule, detail)


def _unrepaired(problem: PoolProblem, row: int, rule: str, why: str) -> Rejection:
    owner = problem.broker_ids[int(problem.owner[row])]
    detail = f"{owner} may not keep the bundle, {why}"
    return Rejection(problem.pool, "bundle", problem.bundles[row], owner, rule, detail)


def _why_unrepaired(placement: Placement, row: int) -> Refusal:
    ceiling = np.maximum(placement.line, placement.used_before)
    line = Obstacle(
        "overload-line",
        ~_has_room(placement, row, ceiling),
        "every broker that may own it would go above the overload line with it",
        "would go above the overload line",
    )
    return find_refusal(placement, row, ceiling, line) or Refusal(
        "no-gain", "no move was found that takes it to a broker with room", is_lasting=False
    )


def _hot_bundles(placement: Placement, band: Band, broker: int) -> Iterator[Rejection]:
    """Explain why the largest bundles of a broker that stays above its band were not moved."""
    problem = placement.problem
    above = np.maximum(placement.used[broker] - band.cap[broker], 0)
    resource = int(np.argmax(above / np.maximum(placement.cap[broker], 1)))
    mine = np.flatnonzero((placement.owner == broker) & (problem.load[:, resource] > 0))
    largest = mine[np.lexsort((mine, -problem.load[mine, resource]))][:EXPLAINED_BUNDLES]
    name = problem.broker_ids[broker]
    for row in largest.tolist():
        found = _why_left_alone(placement, row)
        carries = percent(int(problem.load[row, resource]), int(problem.limit[broker, resource]))
        detail = f"uses {carries} of {name}'s {limit_name(resource)}, and {name} stays above its band: {found.why}"
        yield Rejection(problem.pool, "bundle", problem.bundles[row], name, found.rule, detail)


def _why_left_alone(placement: Placement, row: int) -> Refusal:
    problem = placement.problem
    if placement.owner[row] != problem.owner[row]:
        return Refusal(
            "moved-here", "the plan brings it here, where it does less harm than where it was", is_lasting=False
        )
    band = Obstacle(
        "band",
        # A broker without a known limit does not count as having room.
        ~_has_room(placement, row, placement.receive_cap) | ~placement.receives,
        "no eligible broker has room for it inside its band",
        "have no room for it inside their band",
    )
    return find_refusal(placement, row, placement.receive_cap, band) or Refusal(
        "no-gain",
        "other brokers have room for it, but no move of it was found that improves the plan",
        is_lasting=False,
    )


def _has_room(placement: Placement, row: int, ceiling: Ints) -> Bools:
    room: Bools = (placement.used + placement.problem.load[row] <= ceiling).all(axis=1)
    return room


def find_refusal(placement: Placement, row: int, ceiling: Ints, *more: Obstacle) -> Refusal | None:
    """Find the first rule, in the order of Pulsar's filters, that excludes every other broker; None if there is none.

    If no single rule does, all rules that do so together are named; `more` are checked after the usual ones.
    """
    problem = placement.problem
    mobility = Mobility(int(problem.mobility[row]))
    if mobility != Mobility.FREE:
        return Refusal(*PINNED[mobility])
    kind = int(problem.eligibility_class[row])
    is_other = np.ones(len(problem.broker_ids), dtype=bool)
    is_other[[int(problem.owner[row]), int(placement.owner[row])]] = False
    allowed = problem.isolated[kind] & is_other
    if not allowed.any():
        policy = problem.class_policies[kind]
        by = f"isolation policy {policy}" if policy else "the isolation policies of others"
        return Refusal(NO_ELIGIBLE_BROKER, f"no other live broker may own {problem.namespaces[row]} by {by}")
    serving = problem.serving[kind] & is_other
    if not serving.any():
        others = count(int(allowed.sum()), "other broker")
        return Refusal("persistent-topics", f"the {others} that may own it would have to serve persistent topics")
    receiving = problem.eligible[kind] & problem.can_receive & is_other
    if not receiving.any():
        return _why_not_receiving(problem, serving)
    return _name_binding(receiving, [*_find_obstacles(placement, row, receiving, ceiling), *more])


def _name_binding(receiving: Bools, obstacles: Sequence[Obstacle]) -> Refusal | None:
    """The obstacle that excludes every broker, or all that do so together, named after the one that excludes most."""
    for obstacle in obstacles:
        if not (receiving & ~obstacle.shut).any():
            return Refusal(obstacle.rule, obstacle.of_all, obstacle.is_lasting)
    left, binding = receiving.copy(), []
    for obstacle in obstacles:
        binding.append((int((left & obstacle.shut).sum()), obstacle))
        left &= ~obstacle.shut
    if left.any():
        return None
    parts = [f"{number:,} {obstacle.of_some}" for number, obstacle in binding if number]
    most = max(binding, key=lambda bound: bound[0])[1]
    others = count(int(receiving.sum()), "other broker")
    why = f"of the {others} that may own it, {', '.join(parts[:-1])} and {parts[-1]}"
    return Refusal(most.rule, why, is_lasting=False)


def _find_obstacles(placement: Placement, row: int, receiving: Bools, ceiling: Ints) -> Iterator[Obstacle]:
    """Rules that may exclude brokers that could otherwise receive the bundle, whatever they carry now."""
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
        is_lasting=True,
    )


def _why_not_receiving(problem: PoolProblem, eligible: Bools) -> Refusal:
    others = f"the {count(int(eligible.sum()), 'other broker')} that may own it"
    if problem.is_left_alone[eligible].all():
        return Refusal(LEFT_ALONE, f"the settings leave {others} alone")
    if problem.is_left_alone[eligible].any():
        eligible = eligible & ~problem.is_left_alone
        others = f"the {count(int(eligible.sum()), 'other broker')} that may own it and that the settings do not spare"
    states = sorted({state for state, may in zip(problem.states, eligible, strict=True) if may})
    if problem.must_be_emptied[eligible].all():
        return Refusal(DRAINING, f"{others} must be emptied ({', '.join(states)})")
    if states == [BrokerState.ACTIVE]:
        return Refusal("version-filter", f"{others} would have to run the latest version")
    if BrokerState.ACTIVE in states:
        states.remove(BrokerState.ACTIVE)
        why = f"would have to run the latest version, or cannot receive ({', '.join(states)})"
        return Refusal("version-filter", f"{others} {why}")
    return Refusal("no-active-broker", f"{others} cannot receive ({', '.join(states)})")


def _why_too_big(placement: Placement, row: int, candidates: Bools, ceiling: Ints) -> str:
    """Say how much a bundle would take of the candidate that suits it best, even if that were empty."""
    problem = placement.problem
    share = np.where(ceiling > 0, problem.load[row] / np.maximum(ceiling, 1), np.inf)[candidates]
    best = int(np.flatnonzero(candidates)[np.argmin(share.max(axis=1))])
    resource = int(np.argmax(problem.load[row] / np.maximum(ceiling[best], 1)))
    limit = int(problem.limit[best, resource])
    return (
        f"it needs {percent(int(problem.load[row, resource]), limit)} of {problem.broker_ids[best]}'s "
        f"{limit_name(resource)}, and that broker may be filled to {percent(int(ceiling[best, resource]), limit)} at "
        "most: split the bundle"
    )
