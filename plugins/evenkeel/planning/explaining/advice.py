"""Diagnose a pool: which resource binds it, what keeps it from being better, and what would help most.

The sentences are stored in plan.json and are part of the plan id. They hold if none of the pool's moves is left out.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from evenkeel.model.figures import PoolDiagnosis, PoolLimit
from evenkeel.model.load import MILLI, RESOURCES
from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.explaining.refusals import NO_ELIGIBLE_BROKER, NO_REPORT, TOO_BIG, Refusal, find_refusal
from evenkeel.planning.explaining.words import count, limit_name, number, percent, resource_name, share
from evenkeel.planning.problem.band import PPB, Band, lowest_peak
from evenkeel.planning.problem.columns import Bools, Ints
from evenkeel.planning.problem.disruption import pricing_of, step_prices
from evenkeel.planning.problem.problem import PoolProblem
from evenkeel.planning.search.placement import Placement

DIGITS = 6
# If the lowest reachable peak is above this share of the overload line, the advice says what one more broker would do.
NEAR_THE_LINE = 0.8
# The rule that keeps a bundle on a hot broker, and its name in the pool's row.
_CAUSES = {
    TOO_BIG: "giant-bundle",
    NO_ELIGIBLE_BROKER: "policies",
    "draining": "policies",
    "no-active-broker": "policies",
    "version-filter": "policies",
    "persistent-topics": "policies",
    "excluded-namespace": "excluded-namespaces",
    "system-namespace": "excluded-namespaces",
    "pinned-bundle": "left-alone",
    "left-alone": "left-alone",
    "in-flight": "in-flight",
    NO_REPORT: "no-load-report",
    "anti-affinity": "anti-affinity",
    "topic-limit": "topic-limit",
}
Finding = tuple[str, list[str]]


def diagnose_pool(placement: Placement, band: Band, settings: Settings) -> PoolDiagnosis:
    """What limits a pool, and what would help; the same for the same placement."""
    is_outside = _outside_band(placement, band)
    limited_by, advice = _find_budget(placement, settings) or _diagnose(placement, band, settings, is_outside)
    lowest = {name: round(peak / PPB, DIGITS) for name, peak in zip(RESOURCES, band.peak_ppb, strict=True)}
    return PoolDiagnosis(
        policies=tuple(sorted({policy for policy in placement.problem.class_policies if policy})),
        binding_resource=max(lowest, key=lambda name: lowest[name]) if any(lowest.values()) else None,
        lowest_peak=lowest,
        limited_by=PoolLimit(limited_by),
        advice=tuple(advice),
    )


def _outside_band(placement: Placement, band: Band) -> Bools:
    """Whether the plan leaves a broker above the band, per broker and resource."""
    outside: Bools = (placement.used > band.cap) & placement.takes_part[:, None]
    return outside


def _find_budget(placement: Placement, settings: Settings) -> Finding | None:
    """Find a budget of the plan that is too small for this pool alone."""
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
                f"raising the budget {budget} = {number(most)}: the moves of this pool alone take {number(amount)}, "
                "and what is beyond the budget is left out"
            ]
    return None


def _diagnose(placement: Placement, band: Band, settings: Settings, is_outside: Bools) -> Finding:
    problem = placement.problem
    if not len(problem.bundles):
        return "nothing", ["nothing: the pool has no bundles"]
    if problem.unreported:
        return "no-load-report", [f"a load report of {problem.unreported[0]}: find out why it gives none, or drain it"]
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
    spared = int((problem.is_member & problem.is_left_alone).sum())
    if int(placement.receives.sum()) == 1 and spared:
        brokers = "broker takes" if spared == 1 else f"{spared} brokers take"
        return "one-broker", [f"letting the {brokers} part that the settings leave alone: only one other may receive"]
    if int(placement.receives.sum()) == 1:
        return "one-broker", [
            f"a second broker of its size, which would take half of the {share(peak)} of its {limit_name(binding)}: "
            "only one broker of the pool may receive, so there is nothing to balance"
        ]
    return "nothing", _advise_if_full(placement, band, settings)


def _advise_without_brokers(placement: Placement) -> list[str]:
    problem = placement.problem
    if not problem.is_member.any():
        return ["a live broker for these namespaces: no isolation policy that rules them names one"]
    if problem.can_receive.any():
        return ["a capacity table in the settings: no broker of the pool that may receive has a known limit"]
    return ["an Active broker in this pool: all that it has are stopping, gone or without a load report"]


def _find_shortage(headroom: Headroom, binding: int, peak: float, line: float) -> Finding:
    """Explain why even the best placement is above the overload line."""
    tightest = headroom.tightest()
    if headroom.evenly <= line and tightest is not None and tightest.peak > headroom.evenly:
        who = f"isolation policy {tightest.policy}" if tightest.policy else "the namespaces without an isolation policy"
        return "policies", [
            f"widening {who} by one broker of the median size: on the {count(tightest.brokers, 'broker')} of its own, "
            f"{resource_name(binding)} is at {share(tightest.peak)} of the limits at best; with one more it is at "
            f"{share(tightest.peak_with_one_more)}",
            f"the pool as a whole has room: spread evenly, its {resource_name(binding)} is at {share(headroom.evenly)} "
            "of the limits",
        ]
    more = headroom.brokers_to_get_below(line)
    return "capacity", [
        _advise_one_more(headroom, binding, peak),
        f"it takes {count(more, 'broker')} of that size to get below the overload line of {share(line)}",
    ]


def _advise_one_more(headroom: Headroom, binding: int, peak: float) -> str:
    return (
        f"one more broker of the median size lowers the lowest reachable peak of {resource_name(binding)} "
        f"from {share(peak)} to {share(headroom.peak_with_one_more())} of the limits"
    )


def _find_cause(placement: Placement, band: Band, settings: Settings, is_outside: Bools) -> Finding:
    """Explain the broker furthest outside the band by the rule that refused its largest bundle."""
    problem = placement.problem
    used = placement.used + problem.background
    part = np.where(is_outside, used / np.maximum(band.cap, 1), 0.0)
    broker, resource = (int(place) for place in np.unravel_index(np.argmax(part), part.shape))
    mine = np.flatnonzero(placement.owner == broker)
    row = int(mine[np.argmax(problem.load[mine, resource])])
    rule, why, _ = find_refusal(placement, row, placement.receive_cap) or Refusal("", "")
    cause = _CAUSES.get(rule, "bundle-sizes")
    limit, name = int(problem.limit[broker, resource]), f"{problem.broker_ids[broker]}'s {limit_name(resource)}"
    carries = percent(int(problem.load[row, resource]), limit)
    end = f"where the band ends at {percent(int(band.cap[broker, resource]), limit)}"
    if cause == "giant-bundle":
        advice = f"splitting {problem.bundles[row]}: it takes {carries} of {name}, {end}"
    elif cause == "excluded-namespaces":
        pinned = mine[problem.mobility[mine] == problem.mobility[row]]
        taken = percent(int(problem.load[pinned, resource].sum()), limit)
        advice = f"letting {problem.namespaces[row]} move: bundles that may not move take {taken} of {name}, {end}"
    elif cause == "bundle-sizes":
        whose = f"{problem.broker_ids[broker]}'s {resource_name(resource)}"
        over_peak = used / np.maximum(problem.limit * (np.array(band.peak_ppb) / PPB), 1)
        advice = _advise_wider_band(float(over_peak[is_outside].max()), whose, settings)
    else:
        advice = f"a place for {problem.bundles[row]}, which takes {carries} of {name}: {why}"
    return cause, [advice, *_advise_if_full(placement, band, settings)]


def _advise_wider_band(worst: float, name: str, settings: Settings) -> str:
    """Say how wide the band would have to be for this placement; `worst` is its highest load over the lowest peak."""
    tolerance = math.ceil(100 * (worst - 1)) / 100
    return (
        f"smaller bundles: none of those that make up {name} fits into the room that others have; as it is, "
        f"a tolerance of {tolerance:g} instead of {settings.tolerance:g} would be reached"
    )


def _advise_if_full(placement: Placement, band: Band, settings: Settings) -> list[str]:
    """Suggest one more broker if the pool is close to the overload line anyway."""
    binding = int(np.argmax(band.peak_ppb))
    peak = band.peak_ppb[binding] / PPB
    if peak <= NEAR_THE_LINE * settings.broker_overloaded_threshold_percentage / 100:
        return []
    return [_advise_one_more(Headroom(placement.problem, binding), binding, peak)]


@dataclass(frozen=True, slots=True)
class Squeeze:
    """Namespaces that share a set of brokers, and how full they alone make it; `policy` is None for shared brokers."""

    policy: str | None
    brokers: int
    peak: float
    peak_with_one_more: float


class Headroom:
    """What more capacity of one resource would do for a pool, or for the namespaces that are short of it."""

    def __init__(self, problem: PoolProblem, resource: int) -> None:
        self._problem = problem
        takes_part = problem.can_receive & (problem.limit[:, resource] > 0)
        counted = (takes_part[problem.owner] & ~problem.is_stranded) | problem.must_move
        self._limit: Ints = problem.limit[:, resource]
        self._eligible: Bools = problem.eligible & takes_part
        self._class_load = np.zeros(len(problem.eligible), dtype=np.int64)
        np.add.at(self._class_load, problem.eligibility_class[counted], problem.load[counted, resource])
        limits = self._limit[takes_part]
        # The lower median, so that a broker of that size really exists.
        self._median = int(np.sort(limits)[(len(limits) - 1) // 2]) if len(limits) else 0
        self._capacity = int(limits.sum())

    @property
    def evenly(self) -> float:
        """The peak if every broker could carry every bundle."""
        return int(self._class_load.sum()) / self._capacity if self._capacity else 0.0

    def peak_with_one_more(self) -> float:
        """The lowest peak with one more broker of median size that may own everything."""
        wider = np.hstack([self._eligible, np.ones((len(self._eligible), 1), dtype=bool)])
        return lowest_peak(self._class_load, wider, np.append(self._limit, self._median)) / PPB

    def brokers_to_get_below(self, line: float) -> int:
        """How many brokers of median size bring the even peak below a line."""
        missing = int(self._class_load.sum()) / line - self._capacity
        return max(0, math.ceil(missing / self._median)) if self._median else 0

    def tightest(self) -> Squeeze | None:
        """The class of namespaces that alone makes its brokers the fullest."""
        capacity = (self._eligible * self._limit).sum(axis=1)
        known = capacity > 0
        if not known.any():
            return None
        # Classes with the same brokers add up.
        together = np.array([self._class_load[(self._eligible == row).all(axis=1)].sum() for row in self._eligible])
        peaks = np.where(known, together / np.maximum(capacity, 1), -1.0)
        worst = int(np.argmax(peaks))
        return Squeeze(
            self._problem.class_policies[worst],
            int(self._eligible[worst].sum()),
            float(peaks[worst]),
            float(together[worst] / (capacity[worst] + self._median)),
        )
