"""Figures of a whole plan: balance before and after, bounds, gap, pools, disruption and broken rules."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from evenkeel.model.bundles import tenant_of
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import Step, StepKind
from evenkeel.planning.explaining.cut_pools import amend_summary
from evenkeel.planning.ordering.cluster_brokers import PPB, ClusterBroker, PooledMove
from evenkeel.planning.pool_plan import Move, PoolPlan, Vector

DIGITS = 6
# Of the tenants, those whose clients pay most.
NAMED_TENANTS = 20


def ratio(part: int, whole: int) -> float:
    """A ratio of integers, rounded as all figures of a plan are; 0 where there is nothing to compare with."""
    return round(part / whole, DIGITS) if whole else 0.0


def describe_balance(limits: Mapping[str, Vector], used: Mapping[str, Vector]) -> dict[str, dict[str, float]]:
    """Utilisation per resource over the brokers whose limit is known.

    The mean is all load over all capacity, which no move changes; the spread is that of the brokers' utilisations.
    """
    balance = {}
    for index, resource in enumerate(RESOURCES):
        utilisations = [used[broker][index] / limit[index] for broker, limit in limits.items() if limit[index]]
        load, capacity = _load_and_capacity(limits, used, index)
        peak = max(utilisations, default=0.0)
        balance[str(resource)] = {
            "mean": ratio(load, capacity),
            "max": round(peak, DIGITS),
            "std": round(_spread(utilisations), DIGITS),
            "max_over_mean": round(peak * capacity / load, DIGITS) if load else 0.0,
        }
    return balance


def _load_and_capacity(limits: Mapping[str, Vector], used: Mapping[str, Vector], index: int) -> tuple[int, int]:
    """What the brokers whose limit of a resource is known carry of it, and could."""
    known = [broker for broker, limit in limits.items() if limit[index]]
    return sum(used[broker][index] for broker in known), sum(limits[broker][index] for broker in known)


def describe_bounds(
    plans: Sequence[PoolPlan], limits: Mapping[str, Vector], used: Mapping[str, Vector]
) -> dict[str, Any]:
    """Lower bounds for any plan of the cluster: pools add up, the highest of the pools' lowest peaks stands out."""
    share, over_mean = {}, {}
    for index, resource in enumerate(RESOURCES):
        total = sum(plan.bounds.total_load[index] for plan in plans)
        share[str(resource)] = _down(sum(plan.bounds.moved_load[index] for plan in plans), total)
        peak_ppb = max((plan.bounds.peak_ppb[index] for plan in plans), default=0)
        load, capacity = _load_and_capacity(limits, used, index)
        # No peak is below the mean, whatever rounding says. Whole numbers, since a mean may be next to nothing.
        over_mean[str(resource)] = max(1.0, _down(peak_ppb * capacity, load * PPB)) if load else 0.0
    return {
        "moves": sum(plan.bounds.moves for plan in plans),
        "sessions": sum(plan.bounds.sessions for plan in plans),
        "moved_share": share,
        "max_over_mean": over_mean,
    }


def describe_gap(
    steps: Sequence[Step],
    plans: Sequence[PoolPlan],
    bounds: Mapping[str, Any],
    balance: Mapping[str, Mapping[str, float]],
) -> dict[str, Any]:
    """What was achieved, divided by its bound; null where the bound is 0 and something moved all the same."""
    moved = [
        sum(step.cpu_millipercent for step in steps),
        sum(step.throughput_in_bytes_per_s for step in steps),
        sum(step.throughput_out_bytes_per_s for step in steps),
    ]
    least = [sum(plan.bounds.moved_load[index] for plan in plans) for index in range(len(RESOURCES))]
    return {
        "moves": _gap(sum(step.kind == StepKind.TRANSFER for step in steps), bounds["moves"]),
        "sessions": _gap(sum(step.sessions for step in steps), bounds["sessions"]),
        "moved_share": {str(name): _gap(moved[i], least[i]) for i, name in enumerate(RESOURCES)},
        "max_over_mean": {
            str(name): _gap(balance[name]["max_over_mean"], bounds["max_over_mean"][name]) for name in RESOURCES
        },
    }


def describe_disruption(steps: Sequence[Step]) -> dict[str, Any]:
    """What the plan costs the clients in all, wave by wave, and the tenants who pay most."""
    waves: dict[int, list[Step]] = defaultdict(list)
    tenants: dict[str, list[Step]] = defaultdict(list)
    for step in steps:
        waves[step.wave].append(step)
        tenants[tenant_of(step.bundle)].append(step)
    dearest = sorted(tenants.items(), key=lambda item: (-sum(step.disruption_client_ms for step in item[1]), item[0]))
    return {
        **_costs(steps),
        "waves": [{"wave": wave, **_costs(its_steps)} for wave, its_steps in sorted(waves.items())],
        "tenants": [{"tenant": tenant, **_costs(its_steps)} for tenant, its_steps in dearest[:NAMED_TENANTS]],
        "tenants_in_all": len(tenants),
    }


def describe_pools(plans: Sequence[PoolPlan], moves: Sequence[PooledMove]) -> list[dict[str, Any]]:
    """Pool by pool its size, its moves against the bound, and what its own plan says about it."""
    kept: dict[str, list[Move]] = defaultdict(list)
    for move in moves:
        kept[move.pool].append(move.move)
    return [
        {
            **plan.summary,
            **amend_summary(plan, kept[plan.pool]),
            "pool": plan.pool,
            "brokers": sum(broker.is_member for broker in plan.brokers),
            "bundles": plan.bundles,
            "moves": len(kept[plan.pool]),
            "bound_moves": plan.bounds.moves,
            "gap": _gap(len(kept[plan.pool]), plan.bounds.moves),
        }
        for plan in plans
    ]


def describe_violations(
    plans: Sequence[PoolPlan],
    brokers: Mapping[str, ClusterBroker],
    groups: Mapping[tuple[str, str], int],
    moves: Sequence[PooledMove],
) -> dict[str, dict[str, int]]:
    """Broken rules before and after: bundles in the wrong place, and how crowded anti-affinity groups are."""
    counts = Counter(groups)
    misplaced = sum(plan.misplaced for plan in plans)
    to_be_emptied = sum(plan.to_be_emptied for plan in plans)
    before = _violations(misplaced, to_be_emptied, counts, brokers)
    for move in moves:
        if move.move.group is not None:
            counts[move.move.group, move.source] -= 1
            counts[move.move.group, move.destination] += 1
    misplaced -= sum(move.move.leaves_forbidden_owner for move in moves)
    to_be_emptied -= sum(move.move.leaves_emptied_owner for move in moves)
    return {"before": before, "after": _violations(misplaced, to_be_emptied, counts, brokers)}


def _costs(steps: Sequence[Step]) -> dict[str, Any]:
    return {
        "steps": len(steps),
        "sessions": sum(step.sessions for step in steps),
        "client_seconds": round(sum(step.disruption_client_ms for step in steps) / 1000, 3),
        "moved_bytes_per_s": sum(step.throughput_in_bytes_per_s + step.throughput_out_bytes_per_s for step in steps),
    }


def _violations(
    misplaced: int, to_be_emptied: int, counts: Counter[tuple[str, str]], brokers: Mapping[str, ClusterBroker]
) -> dict[str, int]:
    per_domain: Counter[tuple[str, str]] = Counter()
    for (group, broker), count in counts.items():
        per_domain[group, brokers[broker].domain] += count
    return {
        "misplaced": misplaced,
        "to_be_emptied": to_be_emptied,
        "anti_affinity_peak": max(counts.values(), default=0),
        "anti_affinity_domain_peak": max(per_domain.values(), default=0),
    }


def _spread(values: Sequence[float]) -> float:
    if not values:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values))


def _down(part: int, whole: int) -> float:
    """A ratio rounded down, so that a lower bound stays one."""
    return (part * 10**DIGITS // whole) / 10**DIGITS if whole else 0.0


def _gap(achieved: float, bound: float) -> float | None:
    if bound:
        return round(achieved / bound, DIGITS)
    return None if achieved else 1.0
