"""Says what was left undone, and which rule refused it."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from evenkeel.model.plan import Rejection
from evenkeel.planning.arrays import Bools
from evenkeel.planning.floors import Band
from evenkeel.planning.placement import Placement
from evenkeel.planning.problem import Mobility, PoolProblem
from evenkeel.planning.words import percent, resource_name

# Of a broker that stays hot, this many of its largest bundles are explained one by one.
EXPLAINED_BUNDLES = 10

_RULES = {
    Mobility.EXCLUDED: ("excluded-namespace", "its namespace is excluded from moves by the settings or in Pulsar"),
    Mobility.SYSTEM: ("system-namespace", "Pulsar pins its namespace to its place"),
    Mobility.REPAIR_ONLY: (
        "anti-affinity",
        "its namespace is in an anti-affinity group, whose bundles move only to repair isolation and only where no "
        "failure domain and no broker gets more of the group than the fullest has",
    ),
    Mobility.IN_FLIGHT: ("in-flight", "it was changing hands or splitting when the snapshot was taken"),
    Mobility.GROUP_SPANS_POOLS: (
        "anti-affinity",
        "its anti-affinity group has namespaces in several pools, and one pool alone cannot count them",
    ),
}


def explain_refusals(placement: Placement, band: Band, unrepaired: Bools) -> list[Rejection]:
    """The rejections of a pool: bundles that must move and cannot, then brokers that stay above the band."""
    rejections = [_unrepaired(placement, int(row)) for row in np.flatnonzero(unrepaired)]
    above = np.maximum(placement.used - band.cap, 0)
    above[~placement.takes_part] = 0
    for broker in np.flatnonzero(above.any(axis=1)).tolist():
        for resource in np.flatnonzero(above[broker]).tolist():
            rejections.append(_hot_broker(placement, band, broker, resource))
        rejections += _hot_bundles(placement, band, broker)
    return rejections


def _unrepaired(placement: Placement, row: int) -> Rejection:
    problem = placement.problem
    mobility = Mobility(int(problem.mobility[row]))
    owner = problem.broker_ids[int(problem.owner[row])]
    must = f"{owner} may not keep the bundle, but "
    if not problem.destinations(np.array([row])).any():
        which = problem.class_policies[int(problem.eligibility_class[row])]
        by = f"isolation policy {which}" if which else "the isolation policies"
        rule, why = "no-eligible-broker", f"no Active broker may own {problem.namespaces[row]} by {by}"
    elif mobility != Mobility.FREE:
        rule, why = _RULES[mobility]
    else:
        rule, why = "overload-line", "every broker that may own it would go above the overload line with it"
    return Rejection(problem.pool, "bundle", problem.bundles[row], owner, rule, must + why)


def _hot_broker(placement: Placement, band: Band, broker: int, resource: int) -> Rejection:
    problem = placement.problem
    limit, cap = int(problem.limit[broker, resource]), int(band.cap[broker, resource])
    used, before = int(placement.used[broker, resource]), int(placement.used_before[broker, resource])
    detail = (
        f"stays at {percent(used, limit)} of its {resource_name(resource)} (before: {percent(before, limit)}), "
        f"where the band ends at {percent(cap, limit)}: no move or exchange that the rules allow brings it lower"
    )
    return Rejection(problem.pool, "broker", None, problem.broker_ids[broker], "band", detail)


def _hot_bundles(placement: Placement, band: Band, broker: int) -> Iterator[Rejection]:
    """Why the largest bundles of a broker that stays hot were left alone."""
    problem = placement.problem
    above = np.maximum(placement.used[broker] - band.cap[broker], 0)
    resource = int(np.argmax(above / placement.scale[broker]))
    mine = np.flatnonzero((placement.owner == broker) & (problem.load[:, resource] > 0))
    largest = mine[np.lexsort((mine, -problem.load[mine, resource]))][:EXPLAINED_BUNDLES]
    for row in largest.tolist():
        rule, why = _why_left_alone(placement, row)
        carries = percent(int(problem.load[row, resource]), int(problem.limit[broker, resource]))
        detail = f"carries {carries} of the {resource_name(resource)} of a broker that stays hot: {why}"
        yield Rejection(problem.pool, "bundle", problem.bundles[row], problem.broker_ids[broker], rule, detail)


def _why_left_alone(placement: Placement, row: int) -> tuple[str, str]:
    problem: PoolProblem = placement.problem
    mobility = Mobility(int(problem.mobility[row]))
    if mobility != Mobility.FREE:
        return _RULES[mobility]
    others = problem.destinations(np.array([row]))[0]
    others[int(placement.owner[row])] = False
    if not others.any():
        return "no-eligible-broker", f"no other Active broker may own {problem.namespaces[row]}"
    if not placement.fits(np.array([row]))[0].any():
        return "band", f"none of the {int(others.sum())} other brokers that may own it has room for it inside the band"
    return "no-gain", "moving it would not bring the broker closer to the band"
