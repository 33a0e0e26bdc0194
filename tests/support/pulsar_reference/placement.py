"""Placement by Pulsar's modular manager, rule by rule: the reference for the planner's version on arrays."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from evenkeel.model.errors import InputError
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.broker_load import ResourceUsages, smooth
from evenkeel.pulsar_rules.eligibility import SYSTEM_NAMESPACE, Eligibility
from evenkeel.pulsar_rules.placement import (
    BrokerFacts,
    FilteredBrokers,
    PlacementRequest,
    domains_in_use,
    find_isolated_or_shared,
    find_well_below_average,
    keep_least,
    keep_least_anti_affinity,
    keep_load_manager_class,
    keep_preferred_version,
    topics_of,
)
from support.pulsar_reference.reports import weighted_usage


def keep_up_to_topic_limit(candidates: Sequence[str], topics: Mapping[str, int | None], limit: int) -> list[str]:
    """Keep the brokers with at most as many topics as the limit; all of them if none is left."""
    return [name for name in candidates if (topics.get(name) or 0) <= limit] or list(candidates)


def keep_least_of_namespace(candidates: Sequence[str], bundles: Mapping[str, int]) -> list[str]:
    """Keep the brokers that own the fewest bundles of the namespace."""
    return keep_least(candidates, bundles)


def may_unload_anti_affinity(current: str, candidates: Collection[str], owned: Mapping[str, int]) -> bool:
    """Whether an unloaded bundle of a group can end up on another broker; not if all own equally many."""
    if not owned:
        return True
    counts = [owned.get(name, 0) for name in candidates]
    if not counts:
        return False
    fewest = min(counts)
    of_current = owned.get(current, 0) if current in candidates else 0
    return fewest == 0 or of_current > fewest or any(count != fewest for count in counts)


@dataclass(frozen=True, slots=True)
class ModularRequest(PlacementRequest):
    """A request with what the modular manager also considers: how many bundles of the namespace each broker owns."""

    namespace_owned: Mapping[str, int] = field(default_factory=dict)


def filter_modular(
    facts: Mapping[str, BrokerFacts], eligibility: Eligibility, request: ModularRequest, settings: PulsarSettings
) -> FilteredBrokers:
    """Apply the filters of the modular manager; `eligibility` covers the live brokers, those of `facts`.

    1 isolation policies, or the shared brokers; 2 topic limit, ignored if no broker passes; 3 anti-affinity; 4 even
    spread of the namespace; 5 load manager class; 6 version. If none is left or a filter fails, the result of 1 counts.
    """
    allowed = find_isolated_or_shared(sorted(facts), facts, eligibility, request)
    left = keep_up_to_topic_limit(allowed, topics_of(facts), settings.broker_max_topics)
    if request.group_owned is not None:
        left = keep_least_anti_affinity(left, request.group_owned, domains_in_use(request, settings))
    if settings.distribute_bundles_evenly_enabled or request.namespace == SYSTEM_NAMESPACE:
        left = keep_least_of_namespace(left, request.namespace_owned)
    left = keep_load_manager_class(left, facts, request.load_manager_class)
    try:
        left = keep_preferred_version(left, facts, settings)
    except InputError as error:
        return FilteredBrokers(allowed, (str(error),))
    return FilteredBrokers(left or allowed)


@dataclass(frozen=True, slots=True)
class PlacementLoad:
    """The input of the modular strategies: usage, long-term messages per second, and those of bundles on their way."""

    usages: ResourceUsages = field(default_factory=ResourceUsages)
    long_term_msg_rate: float = 0.0
    preallocated_msg_rate: float = 0.0
    has_bundles_and_messages: bool = True


def least_long_term_message_rate(
    candidates: Collection[str], loads: Mapping[str, PlacementLoad], settings: PulsarSettings
) -> list[str]:
    """The candidates with the lowest long-term message rate that are not overloaded; all if all are overloaded."""
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
    """The candidates well below the average usage; a broker without bundles or messages has no history."""
    usages = dict(history)
    for name in sorted(candidates):
        past = history.get(name) if loads[name].has_bundles_and_messages else None
        current = weighted_usage(loads[name].usages, settings)
        usages[name] = smooth(past, current, settings.history_resource_percentage)
    known = {name: usages[name] for name in sorted(candidates)}
    return UsageDraw(find_well_below_average(known, settings) or sorted(candidates), usages)


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
