"""ThresholdShedder, Pulsar's default: relieve brokers whose usage is well above the average."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.broker_load import smooth

Unloads = dict[str, tuple[str, ...]]
"""Bundles to unload, by owner, in the order of choice."""
# A relieved broker should end up slightly below the threshold, not on it.
MARGIN = 0.05
LOWER_BOUNDARY_SHARE = 0.5
MIB = 1 << 20


def take_largest(ranked: Iterable[tuple[str, float]], wanted: float) -> tuple[str, ...]:
    """Take the largest bundles until together they carry the wanted load; at least one, if there is any."""
    taken: list[str] = []
    carried = 0.0
    for name, value in ranked:
        if taken and not carried < wanted:
            break
        taken.append(name)
        carried += value
    return tuple(taken)


@dataclass(frozen=True, slots=True)
class ThresholdView:
    """The shedder's input: each broker's current usage, bytes per second and number of bundles.

    `rank_bundles` returns the bundles that a broker may shed with their bytes per second, largest first.
    """

    usages: Mapping[str, float]
    throughputs: Mapping[str, float]
    bundle_counts: Mapping[str, int]
    rank_bundles: Callable[[str], Iterable[tuple[str, float]]]


@dataclass(frozen=True, slots=True)
class ThresholdOutcome:
    """The decision of one run, and the smoothed usages that the next run starts from."""

    unloads: Unloads
    usages: Mapping[str, float]


def shed_by_threshold(view: ThresholdView, history: Mapping[str, float], settings: PulsarSettings) -> ThresholdOutcome:
    """Choose the bundles to unload; `history` holds the usages that the previous run returned."""
    usages = _smooth_usages(view, history, settings)
    average = _mean(usages)
    if average == 0:
        return ThresholdOutcome({}, usages)
    unloads: Unloads = {}
    for name, usage in usages.items():
        wanted = _bytes_to_shed(usage, average, view.throughputs[name], settings)
        if wanted is not None and view.bundle_counts[name] > 1:
            _add(unloads, name, take_largest(view.rank_bundles(name), wanted))
    if unloads or not settings.lower_boundary_shedding_enabled:
        return ThresholdOutcome(unloads, usages)
    # Pulsar averages again for this second check, so the history advances twice in such a run.
    usages = _smooth_usages(view, usages, settings)
    return ThresholdOutcome(_relieve_fullest(view, usages, settings), usages)


def _smooth_usages(view: ThresholdView, history: Mapping[str, float], settings: PulsarSettings) -> dict[str, float]:
    share = settings.history_resource_percentage
    return {name: smooth(history.get(name), usage, share) for name, usage in view.usages.items()}


def _mean(usages: Mapping[str, float]) -> float:
    return sum(usages.values()) / len(usages) if usages else 0.0


def _bytes_to_shed(usage: float, average: float, carried: float, settings: PulsarSettings) -> float | None:
    """How many bytes per second a broker should shed; None if it is not overloaded, or not by enough."""
    threshold = settings.broker_threshold_shedder_percentage / 100
    if usage < average + threshold:
        return None
    wanted = carried * (usage - average - threshold + MARGIN)
    return None if wanted < settings.bundle_unload_min_throughput_threshold * MIB else wanted


def _relieve_fullest(view: ThresholdView, usages: Mapping[str, float], settings: PulsarSettings) -> Unloads:
    """Shed a little from the fullest broker if another one is far below the average."""
    threshold = settings.broker_threshold_shedder_percentage / 100
    low_line = _mean(usages) - threshold
    able = [name for name, usage in usages.items() if view.bundle_counts[name] > 1 and usage > low_line]
    if not able or not any(usage < low_line for usage in usages.values()):
        return {}
    fullest = max(able, key=lambda name: usages[name])
    wanted = view.throughputs[fullest] * threshold * LOWER_BOUNDARY_SHARE
    if settings.bundle_unload_min_throughput_threshold * MIB > wanted:
        return {}
    unloads: Unloads = {}
    _add(unloads, fullest, take_largest(view.rank_bundles(fullest), wanted))
    return unloads


def _add(unloads: Unloads, broker: str, bundles: tuple[str, ...]) -> None:
    if bundles:
        unloads[broker] = bundles
