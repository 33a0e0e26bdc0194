"""Plans that carry out what one of Pulsar's own strategies decides, as far as every step is legal.

Pulsar's strategies look at one number per broker and have no band. Their moves are taken over unchanged, except those
that break a hard rule or would leave a pool with a higher peak than before: these are left out, with the reason.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np

from evenkeel.model.plan import Rejection
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.planning.explaining.refusals import PINNED, PoolRefusals, StaysHot
from evenkeel.planning.explaining.words import limit_name
from evenkeel.planning.pool.description import describe
from evenkeel.planning.pool.plan import BrokerLoad, Move, PoolPlan
from evenkeel.planning.problem.band import Band, find_band
from evenkeel.planning.problem.columns import UNLIMITED, Bools, BundleColumns, Ints, vector
from evenkeel.planning.problem.problem import Mobility, PoolProblem, build_problem
from evenkeel.planning.pulsar_strategies.counterfactual import StrategyDecision
from evenkeel.planning.search.bounds import certify
from evenkeel.planning.search.placement import Placement, Solution

# Rules as the table of rejections stores them; their text is part of the plan id.
ILLEGAL_MOVE = "peer-illegal"
WORSENING_MOVE = "peer-worse"
STRATEGY_STOPPED = "peer-rests"


def strategy_pool_plan(
    pool: str,
    brokers: Sequence[Broker],
    bundles: BundleColumns,
    policies: Policies,
    settings: Settings,
    decision: StrategyDecision,
    unreported: Collection[str] = (),
) -> PoolPlan:
    """Carry out a decision in one pool, as far as it is legal and raises no peak.

    `bundles` are the pool's own and those of other pools on its brokers.
    """
    problem = build_problem(pool, brokers, bundles, policies, settings, unreported)
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
        moves=tuple(replace(move, reason=_reason(placement, move, decision), grounds=None) for move in plan.moves),
        refusals=PoolRefusals(
            (
                *(_illegal(problem, row, decision, why) for row, why in illegal.items()),
                *(_worse(problem, row, decision) for row in worsening),
            )
        ),
        stays_hot=StaysHot(STRATEGY_STOPPED, f"{decision.name} rests because {decision.stopped_because}"),
    )


def carry_out(placement: Placement, decision: StrategyDecision) -> dict[int, str]:
    """Make the moves that a strategy decided on; returns the illegal ones by bundle row, each with the broken rule."""
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
    """Say which hard rule a move breaks; None if it is legal."""
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
    if problem.is_left_alone[destination]:
        return f"{wanted} is to be left alone by the settings"
    if not (problem.eligible[eligibility_class, destination] and problem.can_receive[destination]):
        return f"{wanted} would have to run the latest version"
    if not placement.candidates(row, among=problem.can_receive)[destination]:
        return f"{wanted} would exceed the topic limit, or crowd the anti-affinity group of the bundle"
    return None


def _no_worse_than_before(problem: PoolProblem, band: Band) -> Ints:
    """The most load per broker and resource with which the pool's peak neither rises nor leaves the band."""
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
    """Undo moves into brokers above their ceiling, last by name first, until none is above; returns their rows."""
    problem = placement.problem
    taken_back: list[int] = []
    while True:
        above: Bools = np.logical_or.reduce(placement.used + problem.background > ceiling, axis=1)
        moved = np.flatnonzero((placement.owner != problem.owner) & above[placement.owner])
        if not len(moved):
            return sorted(taken_back)
        # One per broker at a time, because that may already be enough.
        _, last = np.unique(placement.owner[moved][::-1], return_index=True)
        for row in moved[::-1][last].tolist():
            placement.move(row, int(problem.owner[row]))
            taken_back.append(row)


def _with_ceiling(broker: BrokerLoad, ceiling: Ints) -> BrokerLoad:
    return replace(broker, balance_limit=vector(np.where(np.array(broker.limit) > 0, ceiling, 0)))


def _reason(placement: Placement, move: Move, decision: StrategyDecision) -> str:
    problem = placement.problem
    (hot, hot_share), (cool, cool_share) = (_fullest(placement, broker) for broker in (move.source, move.destination))
    source, destination = problem.broker_ids[move.source], problem.broker_ids[move.destination]
    figures = f"{100 * hot_share:.1f} % of its {hot} against {100 * cool_share:.1f} % of its {cool}"
    if hot_share > cool_share:
        by = f"{100 * (hot_share - cool_share):.1f} points"
        return f"{decision.name}: {source} is hotter than {destination} by {by}, {figures}"
    return f"{decision.name}: a swap or a later cycle, for {source} is not hotter than {destination}, {figures}"


def _fullest(placement: Placement, broker: int) -> tuple[str, float]:
    """A broker's fullest resource before the plan, and its utilisation."""
    limit = placement.problem.limit[broker]
    used = placement.used_before[broker] + placement.problem.background[broker]
    shares = np.where(limit > 0, used / np.maximum(limit, 1), 0.0)
    resource = int(np.argmax(shares))
    return limit_name(resource), float(shares[resource])


def _illegal(problem: PoolProblem, row: int, decision: StrategyDecision, why: str) -> Rejection:
    return _left_out(problem, row, decision, ILLEGAL_MOVE, why)


def _worse(problem: PoolProblem, row: int, decision: StrategyDecision) -> Rejection:
    why = "it would leave the pool with a higher peak than before, outside of the band"
    return _left_out(problem, row, decision, WORSENING_MOVE, why)


def _left_out(problem: PoolProblem, row: int, decision: StrategyDecision, rule: str, why: str) -> Rejection:
    bundle, owner = str(problem.bundles[row]), problem.broker_ids[int(problem.owner[row])]
    detail = f"{decision.name} would move it from {owner} to {decision.destinations[bundle]}, which is left out: {why}"
    return Rejection(problem.pool, "bundle", bundle, owner, rule, detail)
