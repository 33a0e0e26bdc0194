"""Says in words, with figures, why a bundle moves and why it goes where it goes."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt

from evenkeel.model.load import RESOURCES
from evenkeel.model.settings import Settings
from evenkeel.planning.arrays import Ints
from evenkeel.planning.explaining.alternatives import Homes, Rivals, compare_brokers, compare_bundles
from evenkeel.planning.problem import PoolProblem
from evenkeel.planning.search.placement import Placement


def percent(load: int, limit: int) -> str:
    """A load in percent of a limit, with one digit after the point."""
    return share(int(load) / int(limit)) if limit else "an unknown part"


def share(part: float) -> str:
    """A part of one in percent, with one digit after the point."""
    return f"{100 * part:.1f} %"


def count(many: int, noun: str) -> str:
    """A number with its noun, in the plural where it has to be."""
    return f"{many:,} {noun}{'' if many == 1 else 's'}"


def resource_name(resource: int) -> str:
    return RESOURCES[resource].replace("_", " ")


def explain_moves(placement: Placement, rows: Ints, settings: Settings) -> list[str]:
    """Why each of these bundles moves, and why there; figures are those before the plan unless they say otherwise."""
    if not len(rows):
        return []
    rivals, homes = compare_bundles(placement, rows), compare_brokers(placement, rows)
    why_these = _why_these(placement, rows, rivals, settings)
    why_there = _why_there(placement, rows, rivals.resource, homes)
    return [f"{bundle}; {broker}" for bundle, broker in zip(why_these, why_there, strict=True)]


def _why_these(placement: Placement, rows: Ints, rivals: Rivals, settings: Settings) -> list[str]:
    problem = placement.problem
    source = problem.owner[rows]
    share = 100 * problem.load[rows, rivals.resource] / np.maximum(problem.limit[source, rivals.resource], 1)
    stays_above = placement.used[source] + problem.load[rows] > placement.cap[source]
    pressure = cache(lambda broker, resource: _pressure(placement, broker, resource))
    columns = (
        *(rows, source, rivals.resource, share, problem.sessions[rows], problem.must_move[rows], rivals.helps),
        *(rivals.may_move, rivals.larger, rivals.cheaper, np.logical_or.reduce(stays_above, axis=1)),
    )
    reasons = []
    for row, broker, resource, part, sessions, must_move, helps, *rank in _by_row(*columns):
        if must_move:
            reasons.append(_why_it_must(problem, row))
        elif helps:
            choice = _why_not_another(settings.objective, *rank)
            reasons.append(
                f"{pressure(broker, resource)}; this bundle takes {part:.1f} % off "
                f"for {count(sessions, 'session')}, {choice}"
            )
        else:
            reasons.append(f"makes room on {problem.broker_ids[broker]} for a larger bundle from a hotter broker")
    return reasons


def _by_row(*columns: npt.NDArray[Any]) -> Iterator[tuple[Any, ...]]:
    """Row by row plain values of the columns, which are quicker to format than numpy's."""
    return zip(*(column.tolist() for column in columns), strict=True)


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


def _pressure(placement: Placement, source: int, resource: int) -> str:
    """What is wrong with the broker that a bundle leaves."""
    problem = placement.problem
    limit = int(problem.limit[source, resource])
    used, cap = int(placement.used_before[source, resource]), int(placement.cap[source, resource])
    is_above_line = used > int(placement.line[source, resource])
    return (
        f"{problem.broker_ids[source]} uses {percent(used, limit)} of its {resource_name(resource)}, "
        f"{'above the overload line and ' if is_above_line else ''}{percent(used - cap, limit)} above its "
        f"{percent(cap, limit)}"
    )


def _why_not_another(objective: str, others: int, larger: int, cheaper: int, is_needed: bool) -> str:
    """What the bundle has over the others of its broker that may move."""
    if others == 1:
        return "the only one there that may move"
    if larger == 0 and objective != "disruption":
        return f"the largest of the {others} there that may move"
    if cheaper == 0 and objective != "moves":
        return f"the fewest for its load of the {others} there that may move"
    by_size = objective == "moves" or (objective == "balanced" and larger <= cheaper)
    rank = larger if by_size else cheaper
    if 2 * rank < others:
        better = "larger" if by_size else "cheaper for their load"
        return f"only {rank} of the {others} there that may move {'is' if rank == 1 else 'are'} {better}"
    if is_needed:
        return f"one of the {others} there that may move; without it the broker stays above"
    return f"one of the {others} there that may move"


def _why_there(placement: Placement, rows: Ints, resources: Ints, homes: Homes) -> list[str]:
    names = placement.problem.broker_ids
    outcome = cache(lambda broker, resource: _outcome(placement, broker, resource))
    columns = (placement.owner[rows], resources, homes.possible, homes.open, homes.better, homes.is_inside)
    return [
        f"{names[broker]} {_why_not_elsewhere(*rank)} and {outcome(broker, resource)}"
        for broker, resource, *rank in _by_row(*columns)
    ]


def _why_not_elsewhere(possible: int, with_room: int, better: int, is_inside: bool) -> str:
    """What the new owner has over the others that may own the bundle."""
    if possible <= 1:
        return "is the only other broker that may own it"
    if not is_inside:
        return (
            f"stays below the overload line with it, none of the {possible} that may own it has room inside the band,"
        )
    if with_room == 1:
        return f"takes it, since no other of the {possible} that may own it has room left for it,"
    if better == 0:
        return f"ends least full with it among the {with_room} with room for it of {possible} that may own it"
    return f"is one of the {with_room} with room for it of {possible} that may own it"


def _outcome(placement: Placement, broker: int, resource: int) -> str:
    """What the plan makes of the new owner."""
    problem = placement.problem
    limit = int(problem.limit[broker, resource])
    if not limit:
        return f"its limit of {resource_name(resource)} is unknown"
    before, after = int(placement.used_before[broker, resource]), int(placement.used[broker, resource])
    return (
        f"goes from {percent(before, limit)} to {percent(after, limit)} of its {resource_name(resource)} by this plan, "
        f"where the band ends at {percent(int(placement.cap[broker, resource]), limit)}"
    )
