"""Find the brokers that no itinerary can restart, before any order is tried."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from evenkeel.model.load import RESOURCES
from evenkeel.model.settings import Settings
from evenkeel.planning.explaining.words import count, limit_name, list_some, resource_name
from evenkeel.planning.itinerary.restart_problem import RestartProblem
from evenkeel.planning.itinerary.results import BrokerRefusal, CapacityProof, RefusalKind
from evenkeel.planning.problem.band import overload_caps
from evenkeel.planning.problem.columns import Ints
from evenkeel.planning.problem.problem import Mobility

_WHY_FIXED = {
    Mobility.EXCLUDED: ("is excluded from moves", "move it by hand first, or take its namespace off the exclusions"),
    Mobility.PINNED: ("is pinned to its broker by the settings", "take it off pinned_bundles for the restart"),
    Mobility.IN_FLIGHT: ("was changing hands or splitting in the snapshot", "take the snapshot again"),
    Mobility.UNREPORTED: ("is in a pool with a broker that gave no load report", "wait for its report"),
    Mobility.LEFT_ALONE: ("is on a broker that the settings leave alone", "take it off brokers_left_alone"),
}


def find_refused(problem: RestartProblem) -> Iterator[BrokerRefusal]:
    """Find the brokers that cannot be emptied in any order, with the reason, by name."""
    for broker in np.flatnonzero(problem.is_restarted).tolist():
        name = problem.broker_ids[broker]
        if not problem.is_registered[broker]:
            reason = f"{name} is not registered, so it cannot be restarted"
            yield BrokerRefusal(name, RefusalKind.NOT_REGISTERED, reason, "leave it out")
        elif problem.is_left_alone[broker]:
            reason = f"{name} is to be left alone by the settings"
            yield BrokerRefusal(name, RefusalKind.LEFT_ALONE, reason, "leave it out, or change brokers_left_alone")
        elif problem.is_unreported[broker]:
            reason = f"{name} gave no load report, so nobody knows what it carries"
            yield BrokerRefusal(name, RefusalKind.NO_REPORT, reason, "wait for its report, or leave it out")
        else:
            yield from _find_stuck(problem, broker)


def _find_stuck(problem: RestartProblem, broker: int) -> Iterator[BrokerRefusal]:
    name = problem.broker_ids[broker]
    rows = np.flatnonzero((problem.owner == broker) & ~problem.is_system)
    fixed = rows[~problem.is_movable[rows]]
    if len(fixed):
        why, remedy = _WHY_FIXED[Mobility(int(problem.mobility[fixed[0]]))]
        reason = f"{name} cannot be emptied: {_first_of(problem, fixed)} {why}"
        yield BrokerRefusal(name, RefusalKind.FIXED_BUNDLES, reason, remedy)
        return
    nowhere = rows[~problem.destinations(rows).any(axis=1)]
    if len(nowhere):
        reason = f"{name} cannot be emptied: no other broker may receive {_first_of(problem, nowhere)}"
        remedy = "widen the isolation policy, or bring another of its brokers back"
        yield BrokerRefusal(name, RefusalKind.NO_OTHER_BROKER, reason, remedy)


def _first_of(problem: RestartProblem, rows: Ints) -> str:
    """The first bundle of several, and how many more there are."""
    more = f" (and {count(len(rows) - 1, 'more bundle')})" if len(rows) > 1 else ""
    return f"{problem.bundles[rows[0]]}{more}"


def find_overloaded(problem: RestartProblem, settings: Settings) -> Iterator[BrokerRefusal]:
    """Find brokers that are above the overload line before anything has moved, among those that take part."""
    line = overload_caps(problem.limit, settings)
    used = problem.used(problem.owner)
    for broker in np.flatnonzero(problem.takes_part & (used > line).any(axis=1)).tolist():
        name = problem.broker_ids[broker]
        resource = int(np.argmax(used[broker] - line[broker]))
        reason = (
            f"{name} carries {percent_up(int(used[broker, resource]), int(problem.limit[broker, resource]))} of its "
            f"{limit_name(resource)}, the overload line is {line_percent(settings)}"
        )
        yield BrokerRefusal(name, RefusalKind.OVERLOADED, reason, "rebalance the cluster first")


def name_overloaded_elsewhere(problem: RestartProblem, settings: Settings) -> tuple[str, ...]:
    """The brokers above the overload line that take no part, so that a restart neither causes nor cures it."""
    is_above = (problem.used(problem.owner) > overload_caps(problem.limit, settings)).any(axis=1)
    return tuple(problem.broker_ids[row] for row in np.flatnonzero(is_above & ~problem.takes_part).tolist())


def find_short(proof: CapacityProof) -> Iterator[BrokerRefusal]:
    """Find the brokers without which their pool cannot carry its load."""
    for row in proof.rows:
        if not row.holds:
            resource = RESOURCES.index(row.resource)
            others = f"others ({list_some(row.others)})" if len(row.others) > 1 else f"only other, {row.others[0]}"
            reason = (
                f"without {row.broker_id} its pool needs {percent_up(row.load, row.limit)} of the "
                f"{resource_name(resource)} limit of the {others}, the overload line is {proof.line_percent:g} %"
            )
            yield BrokerRefusal(row.broker_id, RefusalKind.CAPACITY, reason, "add a broker or wait for less load")


def percent_up(load: int, limit: int) -> str:
    """A share in percent, rounded up to a tenth, so that what is above a line never reads as if it were on it."""
    return f"{math.ceil(load * 1000 / limit) / 10:.1f} %"


def line_percent(settings: Settings) -> str:
    return f"{settings.broker_overloaded_threshold_percentage:g} %"
