"""Says in words, with figures, why a bundle moves and why it goes where it goes."""

from __future__ import annotations

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.planning.arrays import Ints
from evenkeel.planning.floors import Band
from evenkeel.planning.placement import Placement
from evenkeel.planning.problem import PoolProblem


def percent(load: int, limit: int) -> str:
    """A load in percent of a limit, with one digit after the point."""
    return f"{100 * int(load) / int(limit):.1f} %" if limit else "an unknown part"


def resource_name(resource: int) -> str:
    return RESOURCES[resource].replace("_", " ")


def explain_move(placement: Placement, band: Band, row: int) -> str:
    """Why this bundle, and why there; the figures are those before the plan."""
    problem = placement.problem
    source, destination = int(problem.owner[row]), int(placement.owner[row])
    excess = np.maximum(placement.used_before[source] - placement.cap[source], 0)
    if problem.must_move[row]:
        why, resource = _why_it_must(problem, row), _largest_share(placement, row, destination)
    elif placement.takes_part[source] and excess.any():
        resource = int(np.argmax(excess / placement.scale[source]))
        why = _why_it_helps(placement, row, source, resource)
    else:
        resource = _largest_share(placement, row, source)
        why = f"makes room on {problem.broker_ids[source]} for a larger bundle from a hotter broker"
    return f"{why}; {_why_there(placement, band, destination, resource)}"


def _why_it_must(problem: PoolProblem, row: int) -> str:
    owner = int(problem.owner[row])
    broker, state = problem.broker_ids[owner], problem.states[owner]
    if problem.must_be_emptied[owner]:
        return f"{broker} is {state} and is emptied"
    policy = problem.class_policies[int(problem.eligibility_class[row])]
    namespace = problem.namespaces[row]
    if policy is None:
        return f"{broker} is reserved by an isolation policy, and {namespace} has none"
    return f"isolation policy {policy} does not let {namespace} live on {broker}"


def _why_it_helps(placement: Placement, row: int, source: int, resource: int) -> str:
    problem = placement.problem
    limit = int(problem.limit[source, resource])
    used, cap = int(placement.used_before[source, resource]), int(placement.cap[source, resource])
    is_above_line = used > int(placement.line[source, resource])
    return (
        f"{problem.broker_ids[source]} uses {percent(used, limit)} of its {resource_name(resource)}, "
        f"{'above the overload line and ' if is_above_line else ''}{percent(used - cap, limit)} above its "
        f"{percent(cap, limit)}; this bundle takes {percent(int(problem.load[row, resource]), limit)} off"
    )


def _why_there(placement: Placement, band: Band, destination: int, resource: int) -> str:
    problem = placement.problem
    broker, limit = problem.broker_ids[destination], int(problem.limit[destination, resource])
    if not limit:
        return f"{broker} may own it, and its limit of {resource_name(resource)} is unknown"
    return (
        f"{broker} may own it and uses {percent(int(placement.used_before[destination, resource]), limit)} of its "
        f"{resource_name(resource)}, where the band ends at {percent(int(band.cap[destination, resource]), limit)}"
    )


def _largest_share(placement: Placement, row: int, broker: int) -> int:
    """The resource of which the bundle takes the largest part of a broker's limit."""
    limit: Ints = placement.problem.limit[broker]
    return int(np.argmax(np.where(limit > 0, placement.problem.load[row] / np.maximum(limit, 1), -1.0)))
