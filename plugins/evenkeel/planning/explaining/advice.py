"""Says of a pool which resource binds it, what keeps it from being better, and what would help most."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from evenkeel.model.load import MILLI, RESOURCES
from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.arrays import Bools, Ints
from evenkeel.planning.disruption import pricing_of, step_prices
from evenkeel.planning.explaining.headroom import Headroom
from evenkeel.planning.explaining.refusals import NO_ELIGIBLE_BROKER, TOO_BIG, find_refusal
from evenkeel.planning.explaining.words import count, percent, resource_name, share
from evenkeel.planning.floors import PPB, Band
from evenkeel.planning.search.placement import Placement

DIGITS = 6
# A pool that can only be brought this close to the overload line is told what one more broker would do.
NEAR_THE_LINE = 0.8

# What keeps a bundle on a broker that stays hot, and how the pool's row calls it.
_CAUSES = {
    TOO_BIG: "giant-bundle",
    NO_ELIGIBLE_BROKER: "policies",
    "draining": "policies",
    "no-active-broker": "policies",
    "version-filter": "policies",
    "persistent-topics": "policies",
    "excluded-namespace": "excluded-namespaces",
    "system-namespace": "excluded-namespaces",
    "in-flight": "in-flight",
    "anti-affinity": "anti-affinity",
    "topic-limit": "topic-limit",
}

Finding = tuple[str, list[str]]


def summarise_pool(placement: Placement, band: Band, settings: Settings) -> Mapping[str, Any]:
    """What the plan's row about a pool says: plain values, the same for the same placement.

    `lowest_peak`, `peak_before` and `peak_after` are shares of the limits per resource; `limited_by` is one of nothing,
    no-broker, no-load, one-broker, budget, capacity, policies, giant-bundle, excluded-namespaces, in-flight,
    anti-affinity, topic-limit and bundle-sizes.
    """
    is_outside = _outside_band(placement, band)
    limited_by, advice = _find_budget(placement, settings) or _diagnose(placement, band, settings, is_outside)
    lowest = _by_resource(np.array(band.peak_ppb) / PPB)
    return {
        "binding_resource": max(lowest, key=lambda name: lowest[name]) if any(lowest.values()) else None,
        "lowest_peak": lowest,
        "peak_before": _by_resource(_peaks(placement, placement.used_before)),
        "peak_after": _by_resource(_peaks(placement, placement.used)),
        "reaches_band": limited_by not in ("budget", "no-broker") and not bool(is_outside.any()),
        "limited_by": limited_by,
        "advice": advice,
    }


def _outside_band(placement: Placement, band: Band) -> Bools:
    """Per broker and resource whether the plan leaves it above the band."""
    outside: Bools = (placement.used > band.cap) & placement.takes_part[:, None]
    return outside


def _peaks(placement: Placement, used: Ints) -> Any:
    limit = placement.problem.limit
    is_known = (limit > 0) & placement.takes_part[:, None]
    return np.where(is_known, used / np.maximum(limit, 1), 0.0).max(axis=0, initial=0.0)


def _by_resource(values: Any) -> dict[str, float]:
    return {str(name): round(float(value), DIGITS) for name, value in zip(RESOURCES, values, strict=True)}


def _find_budget(placement: Placement, settings: Settings) -> Finding | None:
    """The budget of the whole plan that is too small for this pool alone."""
    problem = placement.problem
    moved = np.flatnonzero(placement.owner != problem.owner)
    load, sessions = problem.load[moved], problem.sessions[moved]
    client_ms = step_prices(StepKind.TRANSFER, sessions, load[:, 2], pricing_of(problem.load_manager, settings))
    takes = {
        "max_steps": len(moved),
        "max_moved_sessions": int(sessions.sum()),
        "max_moved_bytes_per_s": int(load[:, 1:].sum()),
        "max_client_seconds": int(client_ms.sum()) / MILLI,
    }
    for budget, amount in takes.items():
        most = getattr(settings, budget)
        if most is not None and amount > most:
            return "budget", [
                f"raising the budget {budget} = {most:,.0f}: the moves of this pool alone take {amount:,.0f}, "
                "and what is beyond the budget is left out"
            ]
    return None


def _diagnose(placement: Placement, band: Band, settings: Settings, is_outside: Bools) -> Finding:
    problem = placement.problem
    if not len(problem.bundles):
        return "nothing", ["nothing: the pool has no bundles"]
    if not placement.receives.any():
        return "no-broker", _advise_without_brokers(placement)
    if not problem.load.any():
        return "no-load", ["nothing: no bundle carries any load, so every placement is as good as this one"]
    binding = int(np.argmax(band.peak_ppb))
    if is_outside.any():
        return _find_cause(placement, band, settings, is_outside)
    line = settings.broker_overloaded_threshold_percentage / 100
    peak = band.peak_ppb[binding] / PPB
    headroom = Headroom(problem, binding)
    if peak > line:
        return _find_shortage(headroom, binding, peak, line)
    if int(placement.receives.sum()) == 1:
        return "one-broker", [
            f"the pool has one broker that may receive, so there is nothing to balance; a second one of its size would "
            f"take half of its {share(peak)} of {resource_name(binding)}"
        ]
    return "nothing", _advise_contented(placement, headroom, binding, peak, line)


def _advise_without_brokers(placement: Placement) -> list[str]:
    problem = placement.problem
    if not problem.is_member.any():
        return ["a live broker for these namespaces: no isolation policy that rules them names one"]
    if problem.can_receive.any():
        return ["a capacity table in the settings: no broker of the pool that may receive has a known limit"]
    return ["an Active broker in this pool: all that it has are stopping, gone or without a load report"]


def _find_shortage(headroom: Headroom, binding: int, peak: float, line: float) -> Finding:
    """Why even the best placement is above the overload line."""
    tightest = headroom.tightest()
    if headroom.evenly <= line and tightest is not None and tightest.peak > headroom.evenly:
        who = f"isolation policy {tightest.policy}" if tightest.policy else "the namespaces without an isolation policy"
        return "policies", [
            f"widening {who} by one broker of the median size: on the {count(tightest.brokers, 'broker')} of its own, "
            f"{resource_name(binding)} is at {share(tightest.peak)} at best; with one more it is at "
            f"{share(tightest.peak_with_one_more)}",
            f"the pool as a whole has room: spread evenly, its {resource_name(binding)} is at {share(headroom.evenly)}",
        ]
    more = headroom.brokers_to_get_below(line)
    return "capacity", [
        _advise_one_more(headroom, binding, peak),
        f"it takes {count(more, 'broker')} of that size to get below the overload line of {share(line)}",
    ]


def _advise_one_more(headroom: Headroom, binding: int, peak: float) -> str:
    return (
        f"one more broker of the median size lowers the lowest reachable peak of {resource_name(binding)} "
        f"from {share(peak)} to {share(headroom.peak_with_one_more())}"
    )


def _advise_contented(placement: Placement, headroom: Headroom, binding: int, peak: float, line: float) -> list[str]:
    peaks = _peaks(placement, placement.used)
    fullest = int(np.argmax(peaks))
    growth = max(0, math.floor(100 * (line / float(peaks[fullest]) - 1))) if peaks[fullest] else 0
    advice = [
        f"nothing: every broker is inside the band; the fullest is at {share(peaks[fullest])} of its "
        f"{resource_name(fullest)}, and the load may grow by {growth} % before the overload line of {share(line)}"
    ]
    if peak > NEAR_THE_LINE * line:
        advice.append(_advise_one_more(headroom, binding, peak))
    return advice


def _find_cause(placement: Placement, band: Band, settings: Settings, is_outside: Bools) -> Finding:
    """What keeps the broker hot that is furthest outside the band: the rule that refused its largest bundle."""
    problem = placement.problem
    part = np.where(is_outside, placement.used / np.maximum(band.cap, 1), 0.0)
    broker, resource = (int(place) for place in np.unravel_index(np.argmax(part), part.shape))
    mine = np.flatnonzero(placement.owner == broker)
    row = int(mine[np.argmax(problem.load[mine, resource])])
    rule, why = find_refusal(placement, row, placement.receive_cap) or ("", "")
    cause = _CAUSES.get(rule, "bundle-sizes")
    limit, name = int(problem.limit[broker, resource]), f"{problem.broker_ids[broker]}'s {resource_name(resource)}"
    carries = percent(int(problem.load[row, resource]), limit)
    end = f"where the band ends at {percent(int(band.cap[broker, resource]), limit)}"
    if cause == "giant-bundle":
        advice = f"splitting {problem.bundles[row]}: it takes {carries} of {name}, {end}"
    elif cause == "excluded-namespaces":
        pinned = mine[problem.mobility[mine] == problem.mobility[row]]
        taken = percent(int(problem.load[pinned, resource].sum()), limit)
        advice = f"letting {problem.namespaces[row]} move: bundles that may not move take {taken} of {name}, {end}"
    elif cause == "bundle-sizes":
        advice = _advise_wider_band(float(part.max()), name, settings)
    else:
        advice = f"a place for {problem.bundles[row]}, which takes {carries} of {name}: {why}"
    return cause, [advice, *_advise_if_full(placement, band, settings)]


def _advise_wider_band(worst: float, name: str, settings: Settings) -> str:
    """How wide the band would have to be for this placement to lie in it."""
    tolerance = math.ceil(100 * (worst * (1 + settings.tolerance) - 1)) / 100
    return (
        f"smaller bundles: none of those that make up {name} fits into the room that others have; as it is, "
        f"a tolerance of {tolerance:g} instead of {settings.tolerance:g} would be reached"
    )


def _advise_if_full(placement: Placement, band: Band, settings: Settings) -> list[str]:
    """One more broker, where the pool is close to the overload line anyway."""
    binding = int(np.argmax(band.peak_ppb))
    peak = band.peak_ppb[binding] / PPB
    if peak <= NEAR_THE_LINE * settings.broker_overloaded_threshold_percentage / 100:
        return []
    return [_advise_one_more(Headroom(placement.problem, binding), binding, peak)]
