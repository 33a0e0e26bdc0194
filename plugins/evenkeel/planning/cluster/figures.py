"""Computes the figures of a whole plan: balance, bounds, gap, disruption and broken rules."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict

from evenkeel.model.bundles import tenant_of
from evenkeel.model.figures import (
    Balance,
    Bounds,
    BrokenRules,
    Disruption,
    Gap,
    StepCosts,
    StepCounts,
    TenantCosts,
    Utilisation,
    Violations,
    WaveCosts,
)
from evenkeel.model.load import MILLI, RESOURCES, Resource
from evenkeel.model.plan import Step, StepKind
from evenkeel.planning.cluster.cluster_brokers import PPB, ClusterBroker, PooledMove
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.problem.columns import Vector

DIGITS = 6
# A plan names this many tenants: those whose clients pay most.
NAMED_TENANTS = 20


def ratio(part: int, whole: int) -> float:
    """A ratio of integers, rounded like all figures of a plan; 0 where there is nothing to compare with."""
    return round(part / whole, DIGITS) if whole else 0.0


def count_steps(steps: Iterable[Step]) -> StepCounts:
    """Count the steps of each kind."""
    kinds = Counter(step.kind for step in steps)
    return StepCounts(kinds[StepKind.TRANSFER], kinds[StepKind.SPLIT], kinds[StepKind.UNLOAD])


def describe_balance(
    limits: Mapping[str, Vector], before: Mapping[str, Vector], after: Mapping[str, Vector]
) -> Balance:
    """The utilisation of each resource before and after, over the brokers whose limit is known."""
    return Balance(_utilisations(limits, before), _utilisations(limits, after))


def _utilisations(limits: Mapping[str, Vector], used: Mapping[str, Vector]) -> dict[Resource, Utilisation]:
    balance = {}
    for index, resource in enumerate(RESOURCES):
        utilisations = [used[broker][index] / limit[index] for broker, limit in limits.items() if limit[index]]
        load, capacity = _load_and_capacity(limits, used, index)
        peak = max(utilisations, default=0.0)
        balance[resource] = Utilisation(
            mean=ratio(load, capacity),
            max=round(peak, DIGITS),
            std=round(_spread(utilisations), DIGITS),
            max_over_mean=round(peak * capacity / load, DIGITS) if load else 0.0,
        )
    return balance


def _load_and_capacity(limits: Mapping[str, Vector], used: Mapping[str, Vector], index: int) -> tuple[int, int]:
    """The load and the capacity of one resource, over the brokers whose limit is known."""
    known = [broker for broker, limit in limits.items() if limit[index]]
    return sum(used[broker][index] for broker in known), sum(limits[broker][index] for broker in known)


def describe_bounds(plans: Sequence[PoolPlan], limits: Mapping[str, Vector], used: Mapping[str, Vector]) -> Bounds:
    """Lower bounds for any plan of the cluster: pools add up, and the highest of their lowest peaks counts."""
    share, over_mean = {}, {}
    for index, resource in enumerate(RESOURCES):
        total = sum(plan.bounds.total_load[index] for plan in plans)
        share[resource] = _down(sum(plan.bounds.moved_load[index] for plan in plans), total)
        peak_ppb = max((plan.bounds.peak_ppb[index] for plan in plans), default=0)
        load, capacity = _load_and_capacity(limits, used, index)
        # No peak is below the mean, whatever rounding says. Whole numbers, since a mean may be next to nothing.
        over_mean[resource] = max(1.0, _down(peak_ppb * capacity, load * PPB)) if load else 0.0
    return Bounds(
        moves=sum(plan.bounds.moves for plan in plans),
        sessions=sum(plan.bounds.sessions for plan in plans),
        moved_share=share,
        max_over_mean=over_mean,
    )


def describe_gap(steps: Sequence[Step], plans: Sequence[PoolPlan], bounds: Bounds, balance: Balance) -> Gap:
    """What the plan takes, divided by its bound."""
    moved = [sum(step.load[index] for step in steps) for index in range(len(RESOURCES))]
    least = [sum(plan.bounds.moved_load[index] for plan in plans) for index in range(len(RESOURCES))]
    return Gap(
        moves=gap_of(sum(step.kind == StepKind.TRANSFER for step in steps), bounds.moves),
        sessions=gap_of(sum(step.sessions for step in steps), bounds.sessions),
        moved_share={resource: gap_of(moved[index], least[index]) for index, resource in enumerate(RESOURCES)},
        max_over_mean={
            resource: gap_of(balance.after[resource].max_over_mean, bounds.max_over_mean[resource])
            for resource in RESOURCES
        },
    )


def describe_disruption(steps: Sequence[Step]) -> Disruption:
    """What the plan costs the clients in all, wave by wave, and for the tenants who pay most."""
    waves: dict[int, list[Step]] = defaultdict(list)
    tenants: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        waves[step.wave].append(step)
        tenants[tenant_of(step.bundle)].append(step)
    dearest = sorted(tenants.items(), key=lambda item: (-sum(step.disruption_client_ms for step in item[1]), item[0]))
    return Disruption(
        **asdict(add_costs(steps)),
        waves=tuple(WaveCosts(**asdict(add_costs(its_steps)), wave=wave) for wave, its_steps in sorted(waves.items())),
        tenants=tuple(
            TenantCosts(**asdict(add_costs(its_steps)), tenant=tenant) for tenant, its_steps in dearest[:NAMED_TENANTS]
        ),
        tenants_in_all=len(tenants),
    )


def add_costs(steps: Sequence[Step]) -> StepCosts:
    """What steps cost together; a split costs nothing, for its topics stay open with the same owner."""
    return StepCosts(
        steps=len(steps),
        sessions=sum(step.sessions for step in steps),
        client_seconds=round(sum(step.disruption_client_ms for step in steps) / MILLI, 3),
        moved_bytes_per_s=sum(step.moved_bytes_per_s for step in steps),
    )


def describe_violations(
    plans: Sequence[PoolPlan],
    brokers: Mapping[str, ClusterBroker],
    groups: Mapping[tuple[str, str], int],
    moves: Sequence[PooledMove],
) -> Violations:
    """Count broken rules before and after: bundles in the wrong place, and crowded anti-affinity groups."""
    counts = Counter(groups)
    misplaced = sum(plan.misplaced for plan in plans)
    to_be_emptied = sum(plan.to_be_emptied for plan in plans)
    before = _broken_rules(misplaced, to_be_emptied, counts, brokers)
    for move in moves:
        if move.move.group is not None:
            counts[move.move.group, move.source] -= 1
            counts[move.move.group, move.destination] += 1
    misplaced -= sum(move.move.leaves_forbidden_owner for move in moves)
    to_be_emptied -= sum(move.move.leaves_emptied_owner for move in moves)
    return Violations(before, _broken_rules(misplaced, to_be_emptied, counts, brokers))


def _broken_rules(
    misplaced: int, to_be_emptied: int, counts: Counter[tuple[str, str]], brokers: Mapping[str, ClusterBroker]
) -> BrokenRules:
    per_domain: Counter[tuple[str, str]] = Counter()
    for (group, broker), bundles in counts.items():
        per_domain[group, brokers[broker].domain] += bundles
    return BrokenRules(
        misplaced=misplaced,
        to_be_emptied=to_be_emptied,
        anti_affinity_peak=max(counts.values(), default=0),
        anti_affinity_domain_peak=max(per_domain.values(), default=0),
    )


def _spread(values: Sequence[float]) -> float:
    if not values:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def _down(part: int, whole: int) -> float:
    """A ratio rounded down, so that a lower bound stays one."""
    return (part * 10**DIGITS // whole) / 10**DIGITS if whole else 0.0


def gap_of(achieved: float, bound: float) -> float | None:
    """What is achieved over its bound; None where the bound is 0 and something is taken."""
    if bound:
        return round(achieved / bound, DIGITS)
    return None if achieved else 1.0
