"""Where Pulsar would put a bundle: its placement strategies, each as the set of brokers that it draws from.

Pulsar draws at random among equals. Here the draw is the caller's: `choose` of a seed, or any function of the
candidates in order of name.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar.broker_load import ResourceUsages, smooth, weighted_usage

Chooser = Callable[[Sequence[str]], str]


def choose_with(seed: int) -> Chooser:
    """A chooser that draws the same brokers again for the same seed."""
    return random.Random(seed).choice


@dataclass(frozen=True, slots=True)
class PlacementLoad:
    """What the modular strategies look at: usage, long-term messages per second, and what is on its way."""

    usages: ResourceUsages = field(default_factory=ResourceUsages)
    long_term_msg_rate: float = 0.0
    preallocated_msg_rate: float = 0.0
    has_bundles_and_messages: bool = True


def least_long_term_message_rate(
    candidates: Collection[str], loads: Mapping[str, PlacementLoad], settings: PulsarSettings
) -> list[str]:
    """The candidates with the lowest long-term message rate, overloaded ones aside; all if all are overloaded."""
    line = settings.broker_overloaded_threshold_percentage / 100
    scores = {
        name: math.inf
        if weighted_usage(loads[name].usages, settings) > line
        else loads[name].preallocated_msg_rate + loads[name].long_term_msg_rate
        for name in sorted(candidates)
    }
    lowest = min(scores.values(), default=math.inf)
    return [name for name, score in scores.items() if score == lowest]


@dataclass(frozen=True, slots=True)
class UsageDraw:
    """The brokers to draw from, and the smoothed usages that the next call starts from."""

    brokers: list[str]
    usages: Mapping[str, float]


def least_resource_usage_modular(
    candidates: Collection[str],
    loads: Mapping[str, PlacementLoad],
    history: Mapping[str, float],
    settings: PulsarSettings,
) -> UsageDraw:
    """The candidates well below their average usage; a broker without bundles or messages has no past."""
    usages = dict(history)
    for name in sorted(candidates):
        past = history.get(name) if loads[name].has_bundles_and_messages else None
        current = weighted_usage(loads[name].usages, settings)
        usages[name] = smooth(past, current, settings.history_resource_percentage)
    known = {name: usages[name] for name in sorted(candidates)}
    return UsageDraw(_well_below_average(known, settings) or sorted(candidates), usages)


def least_resource_usage_extensible(
    candidates: Collection[str], averages: Mapping[str, float], settings: PulsarSettings
) -> list[str]:
    """The candidates well below their average load; those without data count only when none is."""
    known = {name: averages[name] for name in sorted(candidates) if name in averages}
    return _well_below_average(known, settings) or sorted(candidates)


def _well_below_average(usages: Mapping[str, float], settings: PulsarSettings) -> list[str]:
    if not usages:
        return []
    average = sum(usages.values()) / len(usages)
    distance = settings.average_resource_usage_difference_threshold_percentage / 100
    return [name for name, usage in usages.items() if usage + distance <= average]


@dataclass(frozen=True, slots=True)
class RoundRobin:
    """Turn-taking for namespaces that are never shed; each choice returns the state for the next."""

    turn: int = 0
    order: tuple[str, ...] = ()

    def choose(self, candidates: Collection[str]) -> tuple[str | None, RoundRobin]:
        if not candidates:
            return None, self
        index = self.turn % len(candidates)
        is_usable = len(self.order) == len(candidates) and self.order[index] in candidates
        order = self.order if is_usable else tuple(sorted(candidates))
        return order[index], RoundRobin(self.turn + 1, order)
