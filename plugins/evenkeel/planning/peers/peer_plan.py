"""Turns what one of Pulsar's own strategies decides into plans of the pools, whose every step is legal.

Pulsar's strategies look at one number a broker and know no band. What they decide is taken over as it is, except where
it breaks a hard rule or would leave a pool with a higher peak than it had: such a move is left out, with a sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from evenkeel.model.plan import Rejection
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.arrays import UNLIMITED, Bools, Ints
from evenkeel.planning.columns import BundleColumns
from evenkeel.planning.description import describe
from evenkeel.planning.explaining.refusals import PINNED
from evenkeel.planning.explaining.words import percent, resource_name
from evenkeel.planning.floors import Band, find_band
from evenkeel.planning.in_process import pool_problems
from evenkeel.planning.peers.decision import PeerDecision, decide
from evenkeel.planning.pool_plan import BrokerLoad, Move, PoolPlan, vector
from evenkeel.planning.problem import Mobility, PoolProblem, build_problem
from evenkeel.planning.search.optimiser import certify
from evenkeel.planning.search.placement import Placement
from evenkeel.planning.search.solution import Solution

PEER_ILLEGAL = "peer-illegal"
PEER_WORSE = "peer-worse"
PEER_RESTS = "peer-rests"


def peer_pool_plans(
    strategy: str, brokers: Sequence[Broker], bundles: BundleColumns, policies: Policies, settings: Settings
) -> list[PoolPlan]:
    """The plans of all pools in order of their names, as a strategy of Pulsar's decides over the whole cluster."""
    decision = decide(strategy, brokers, bundles, policies, settings)
    return [plan_as_decided(p, decision, settings) for p in pool_problems(brokers, bundles, policies, settings)]


def peer_pool_plan(
    pool: str,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    decision: PeerDecision,
) -> PoolPlan:
    """The plan of one pool; `bundles` are its own and the strangers on its brokers."""
    return plan_as_decided(build_problem(pool, brokers, bundles, policies, settings), decision, settings)


def plan_as_decided(problem: PoolProblem, decision: PeerDecision, settings: Settings) -> PoolPlan:
    """Carry out a decision in one pool, as far as it is legal and makes nothing worse."""
    band = find_band(problem, settings)
    placement = Placement(problem, band, settings)
    illegal = carry_out(placement, decision)
    ceiling = _no_worse_than_before(problem, band)
    worsening = _take_back_what_worsens(placement, ceiling)
    solution = Solution(placement, band, truncated=False)
    plan = describe(solution, settings, certify(solution))
    return replace(
        plan,
        brokers=tuple(_with_ceiling(broker, ceiling[row]) for row, broker in enumerate(plan.brokers)),
        moves=tuple(replace(move, reason=_reason(placement, move, decision)) for move in plan.moves),
        rejections=(
            *(_illegal(problem, row, decision, why) for row, why in illegal.items()),
            *(_worse(problem, row, decision) for row in worsening),
            *_rests(placement, band, decision),
        ),
    )


def carry_out(placement: Placement, decision: PeerDecision) -> dict[int, str]:
    """Move what a strategy decided to move; answers the bundles that it must not move, each with the rule in words."""
    problem = placement.problem
    index = {broker: row for row, broker in enumerate(problem.broker_ids)}
    illegal = {}
    for row, bundle in enumerate(problem.bundles.tolist()):
        wanted = decision.destinations.get(bundle)
        if wanted is None:
            continue
        why = _why_illegal(placement, row, wanted, index.get(wanted))
        if why is None:
            placement.move(row, index[wanted])
        else:
            illegal[row] = why
    return illegal


def _why_illegal(placement: Placement, row: int, wanted: str, destination: int | None) -> str | None:
    """The hard rule that a move breaks, in words; None where it breaks none."""
    problem = placement.problem
    mobility = Mobility(int(problem.mobility[row]))
    if mobility is not Mobility.FREE:
        return PINNED[mobility][1]
    eligibility_class = int(problem.eligibility_class[row])
    if destination is None or not problem.isolated[eligibility_class, destination]:
        policy = problem.class_policies[eligibility_class]
        by = f"isolation policy {policy}" if policy else "the isolation policies of others"
        return f"{wanted} may not own {problem.namespaces[row]} by {by}"
    if problem.states[destination] != BrokerState.ACTIVE:
        return f"{wanted} is {problem.states[destination]} and may not receive"
    if not problem.serving[eligibility_class, destination]:
        return f"{wanted} serves no persistent topics"
    if not (problem.eligible[eligibility_class, destination] and problem.can_receive[destination]):
        return f"{wanted} would have to run the latest version"
    if not placement.candidates(row, among=problem.can_receive)[destination]:
        return f"{wanted} would exceed the topic limit, or crowd the anti-affinity group of the bundle"
    return None


def _no_worse_than_before(problem: PoolProblem, band: Band) -> Ints:
    """Per broker and resource the most load with which the pool's peak neither rises nor leaves the band."""
    total = problem.used(problem.owner) + problem.background
    known = (problem.limit > 0) & problem.is_member[:, None]
    ceiling = np.where(known, np.minimum(band.cap, UNLIMITED), UNLIMITED)
    for resource in range(problem.limit.shape[1]):
        rows = np.flatnonzero(known[:, resource])
        pairs = [(int(total[row, resource]), int(problem.limit[row, resource])) for row in rows]
        for row in rows.tolist():
            limit = int(problem.limit[row, resource])
            at_peak = max(used * limit // its_limit for used, its_limit in pairs)
            ceiling[row, resource] = max(int(ceiling[row, resource]), at_peak)
    return ceiling


def _take_back_what_worsens(placement: Placement, ceiling: Ints) -> list[int]:
    """Take back moves into brokers above their ceiling, the last by name first, until none is above; answers them."""
    problem = placement.problem
    taken_back: list[int] = []
    while True:
        above: Bools = np.logical_or.reduce(placement.used + problem.background > ceiling, axis=1)
        moved = np.flatnonzero((placement.owner != problem.owner) & above[placement.owner])
        if not len(moved):
            return sorted(taken_back)
        # One of each broker at a time: what leaves it may be enough.
        _, last = np.unique(placement.owner[moved][::-1], return_index=True)
        for row in moved[::-1][last].tolist():
            placement.move(row, int(problem.owner[row]))
            taken_back.append(row)


def _with_ceiling(broker: BrokerLoad, ceiling: Ints) -> BrokerLoad:
    return replace(broker, balance_limit=vector(np.where(np.array(broker.limit) > 0, ceiling, 0)))


def _reason(placement: Placement, move: Move, decision: PeerDecision) -> str:
    problem = placement.problem
    (hot, hot_share), (cool, cool_share) = (_fullest(placement, broker) for broker in (move.source, move.destination))
    source, destination = problem.broker_ids[move.source], problem.broker_ids[move.destination]
    figures = f"{100 * hot_share:.1f} % of its {hot} against {100 * cool_share:.1f} % of its {cool}"
    if hot_share > cool_share:
        by = f"{100 * (hot_share - cool_share):.1f} points"
        return f"{decision.name}: {source} is hotter than {destination} by {by}, {figures}"
    return f"{decision.name}: a swap or a later cycle, for {source} is not hotter than {destination}, {figures}"


def _fullest(placement: Placement, broker: int) -> tuple[str, float]:
    """The resource of which a broker uses the largest part before the plan, and that part."""
    limit = placement.problem.limit[broker]
    used = placement.used_before[broker] + placement.problem.background[broker]
    shares = np.where(limit > 0, used / np.maximum(limit, 1), 0.0)
    resource = int(np.argmax(shares))
    return resource_name(resource), float(shares[resource])


def _illegal(problem: PoolProblem, row: int, decision: PeerDecision, why: str) -> Rejection:
    return _left_out(problem, row, decision, PEER_ILLEGAL, why)


def _worse(problem: PoolProblem, row: int, decision: PeerDecision) -> Rejection:
    why = "it would leave the pool with a higher peak than before, outside of the band"
    return _left_out(problem, row, decision, PEER_WORSE, why)


def _left_out(problem: PoolProblem, row: int, decision: PeerDecision, rule: str, why: str) -> Rejection:
    bundle, owner = str(problem.bundles[row]), problem.broker_ids[int(problem.owner[row])]
    detail = f"{decision.name} would move it from {owner} to {decision.destinations[bundle]}, which is left out: {why}"
    return Rejection(problem.pool, "bundle", bundle, owner, rule, detail)


def _rests(placement: Placement, band: Band, decision: PeerDecision) -> list[Rejection]:
    """A row for each resource of each broker that the strategy leaves above the band."""
    problem, above = placement.problem, placement.used > band.cap
    above[~placement.takes_part] = False
    rejections = []
    for broker, resource in np.argwhere(above).tolist():
        limit = int(problem.limit[broker, resource])
        detail = (
            f"stays at {percent(placement.used[broker, resource], limit)} of its {resource_name(resource)}, where the "
            f"band ends at {percent(band.cap[broker, resource], limit)}: {decision.name} rests because "
            f"{decision.stopped_because}"
        )
        rejections.append(Rejection(problem.pool, "broker", None, problem.broker_ids[broker], PEER_RESTS, detail))
    return rejections
