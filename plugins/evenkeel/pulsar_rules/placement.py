"""Where Pulsar would put a bundle: the brokers that its filters leave, and the one that its strategy chooses.

Every filter takes candidates and returns those that stay, in their order. None of them looks at load. The extensible
manager applies them in this order:

    1 load manager class
    2 topic limit
    3 version
    4 anti-affinity
    5 isolation policies, or the shared brokers

A filter that fails is skipped. If no broker is left, the bundle gets no owner. Anti-affinity picks the least crowded of
all brokers before isolation applies, so the two can leave no broker although an isolated one is free.

Pulsar chooses at random among equals. Here the caller passes the choice: `choose_with` a seed, or any function of the
candidates sorted by name.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from evenkeel.model.errors import InputError
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar_rules.eligibility import Eligibility

_NUMBER = r"(0|[1-9][0-9]*)"
_WORDS = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
_VERSION = re.compile(rf"{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_WORDS}))?(?:\+{_WORDS})?", re.ASCII)
Word: TypeAlias = tuple[bool, int, str]
VersionKey: TypeAlias = tuple[int, int, int, bool, tuple[Word, ...]]
DEFAULT_DOMAIN = "default"
Chooser = Callable[[Sequence[str]], str]


def version_key(version: str | None) -> VersionKey:
    """A sort key for versions as Pulsar's version filter compares them: a pre-release precedes its release."""
    match = _VERSION.fullmatch(version or "")
    if match is None:
        raise InputError(f"{version!r} is not a version", "write it as in 4.2.4 or 4.2.4-SNAPSHOT")
    major, minor, patch, pre_release = match.groups()
    words = tuple(_word_key(word) for word in pre_release.split(".")) if pre_release else ()
    return int(major), int(minor), int(patch), not words, words


def _word_key(word: str) -> Word:
    """Numbers precede words and are compared by value."""
    return (False, int(word), "") if word.isdecimal() else (True, 0, word)


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What the filters need to know about a broker; `topics` is None if it reported none."""

    load_manager_class: str | None = None
    version: str | None = None
    topics: int | None = None
    takes_persistent: bool = True
    takes_non_persistent: bool = True


def keep_load_manager_class(
    candidates: Sequence[str], facts: Mapping[str, BrokerFacts], load_manager_class: str | None
) -> list[str]:
    """Keep the brokers that run the same load manager as the deciding broker."""
    return [name for name in candidates if facts[name].load_manager_class == load_manager_class]


def keep_below_topic_limit(candidates: Sequence[str], topics: Mapping[str, int | None], limit: int) -> list[str]:
    """Keep the brokers with fewer topics than the limit; possibly none."""
    return [name for name in candidates if (topics.get(name) or 0) < limit]


def keep_latest_version(candidates: Sequence[str], versions: Mapping[str, str | None]) -> list[str]:
    """Keep the brokers with the newest version; a missing or malformed version is an InputError."""
    keys = {name: version_key(versions[name]) for name in candidates}
    latest = max(keys.values(), default=None)
    return [name for name in candidates if keys[name] == latest]


def keep_least_anti_affinity(
    candidates: Sequence[str], owned: Mapping[str, int], domains: Mapping[str, str] | None
) -> list[str]:
    """Keep the brokers that own the least of an anti-affinity group, in the failure domains that own the least of it.

    `owned` counts the group on each broker: namespaces in the modular manager, bundles in the extensible one. Without
    domains (None or empty, as with `failure_domains_enabled` off) only brokers are compared.
    """
    left = list(candidates)
    if domains:
        of_domain: Counter[str] = Counter()
        for name in left:
            of_domain[domains.get(name, DEFAULT_DOMAIN)] += owned.get(name, 0)
        fewest = min(of_domain.values(), default=0)
        left = [name for name in left if of_domain[domains.get(name, DEFAULT_DOMAIN)] == fewest]
    return keep_least(left, owned)


def may_shed_with_policies(has_isolation: bool, has_anti_affinity: bool, is_enabled: bool) -> bool:
    """Whether TransferShedder may move a bundle: bundles under policies only if the settings allow it."""
    return is_enabled or not (has_isolation or has_anti_affinity)


def keep_least(candidates: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    fewest = min((counts.get(name, 0) for name in candidates), default=0)
    return [name for name in candidates if counts.get(name, 0) == fewest]


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A bundle that needs an owner, and where its namespace and anti-affinity group are already.

    `group_owned` is None for a namespace without an anti-affinity group. `load_manager_class` is that of the deciding
    broker.
    """

    namespace: str
    is_non_persistent: bool = False
    group_owned: Mapping[str, int] | None = None
    domains: Mapping[str, str] = field(default_factory=dict)
    load_manager_class: str | None = None


@dataclass(frozen=True, slots=True)
class FilteredBrokers:
    """The brokers that are left, and the filters that failed on the way."""

    brokers: list[str]
    failures: tuple[str, ...] = ()


def find_isolated_or_shared(
    candidates: Sequence[str], facts: Mapping[str, BrokerFacts], eligibility: Eligibility, request: PlacementRequest
) -> list[str]:
    """Keep the brokers that isolation policies allow; shared ones must also take the bundle's kind of topics."""
    eligible = eligibility.brokers_for(request.namespace)
    if eligibility.policy_of(request.namespace) is not None:
        return [name for name in candidates if name in eligible]
    return [name for name in candidates if name in eligible and _takes(facts[name], request.is_non_persistent)]


def filter_extensible(
    facts: Mapping[str, BrokerFacts], eligibility: Eligibility, request: PlacementRequest, settings: PulsarSettings
) -> FilteredBrokers:
    """Apply the filters of the extensible manager; `eligibility` covers the live brokers, those of `facts`."""
    failures: tuple[str, ...] = ()
    left = keep_load_manager_class(sorted(facts), facts, request.load_manager_class)
    left = keep_below_topic_limit(left, topics_of(facts), settings.broker_max_topics)
    try:
        left = keep_preferred_version(left, facts, settings)
    except InputError as error:
        failures = (str(error),)
    if request.group_owned is not None:
        left = keep_least_anti_affinity(left, request.group_owned, domains_in_use(request, settings))
    # Pulsar counts primaries among the brokers that earlier filters left, not among all live brokers.
    narrowed = eligibility.among(left)
    return FilteredBrokers(find_isolated_or_shared(left, facts, narrowed, request), failures)


def can_transfer(
    source: str,
    destination: str,
    filtered: FilteredBrokers,
    has_isolation: bool,
    has_anti_affinity: bool,
    settings: PulsarSettings,
) -> bool:
    """Whether TransferShedder may move a bundle to a destination, given the brokers that the filters left."""
    if not may_shed_with_policies(has_isolation, has_anti_affinity, settings.shedding_bundles_with_policies_enabled):
        return False
    if filtered.failures or destination not in filtered.brokers:
        return False
    if settings.transfer_enabled:
        return destination != source
    return any(name != source for name in filtered.brokers)


def keep_preferred_version(
    candidates: Sequence[str], facts: Mapping[str, BrokerFacts], settings: PulsarSettings
) -> list[str]:
    if not settings.prefer_later_versions:
        return list(candidates)
    if not candidates:
        return []
    return keep_latest_version(candidates, {name: facts[name].version for name in candidates})


def domains_in_use(request: PlacementRequest, settings: PulsarSettings) -> Mapping[str, str] | None:
    return request.domains if settings.failure_domains_enabled else None


def topics_of(facts: Mapping[str, BrokerFacts]) -> dict[str, int | None]:
    return {name: each.topics for name, each in facts.items()}


def _takes(facts: BrokerFacts, is_non_persistent: bool) -> bool:
    return facts.takes_non_persistent if is_non_persistent else facts.takes_persistent


def choose_with(seed: int) -> Chooser:
    """A random chooser that makes the same choices for the same seed."""
    return random.Random(seed).choice


def least_resource_usage_extensible(
    candidates: Collection[str], averages: Mapping[str, float], settings: PulsarSettings
) -> list[str]:
    """The candidates well below the average load, else all candidates; brokers without data have no load."""
    known = {name: averages[name] for name in sorted(candidates) if name in averages}
    return find_well_below_average(known, settings) or sorted(candidates)


def find_well_below_average(usages: Mapping[str, float], settings: PulsarSettings) -> list[str]:
    if not usages:
        return []
    average = sum(usages.values()) / len(usages)
    distance = settings.average_resource_usage_difference_threshold_percentage / 100
    return [name for name, usage in usages.items() if usage + distance <= average]
