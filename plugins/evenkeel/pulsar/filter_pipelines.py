"""The brokers that may get a bundle, as each of Pulsar's load managers finds them.

    modular                              extensible
    1 isolation, or the shared brokers   1 load manager class
    2 topic limit, ignored if none pass  2 topic limit
    3 anti-affinity                      3 version
    4 even spread of the namespace       4 anti-affinity
    5 load manager class                 5 isolation, or the shared brokers
    6 version
    none left, or a filter failed:       a filter failed: it is passed over
    back to the result of 1              none left: no owner

In the extensible order anti-affinity picks its least among all brokers, before isolation cuts: the two can leave
nothing although an isolated broker is free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evenkeel.model.errors import InputError
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.pulsar.broker_filters import (
    BrokerFacts,
    keep_below_topic_limit,
    keep_latest_version,
    keep_least_anti_affinity,
    keep_least_of_namespace,
    keep_load_manager_class,
    keep_up_to_topic_limit,
    may_shed_with_policies,
)
from evenkeel.pulsar.eligibility import Eligibility
from evenkeel.pulsar.namespaces import SYSTEM_NAMESPACE


@dataclass(frozen=True, slots=True)
class PlacementRequest:
    """A bundle that needs an owner, and what its namespace and group own already.

    `group_owned` is None for a namespace without an anti-affinity group. `load_manager_class` is that of the
    broker that decides.
    """

    namespace: str
    is_non_persistent: bool = False
    group_owned: Mapping[str, int] | None = None
    namespace_owned: Mapping[str, int] = field(default_factory=dict)
    domains: Mapping[str, str] = field(default_factory=dict)
    load_manager_class: str | None = None


@dataclass(frozen=True, slots=True)
class FilteredBrokers:
    """The brokers that are left, and the failures of filters on the way."""

    brokers: list[str]
    failures: tuple[str, ...] = ()


def find_isolated_or_shared(
    candidates: Sequence[str], facts: Mapping[str, BrokerFacts], eligibility: Eligibility, request: PlacementRequest
) -> list[str]:
    """The brokers that isolation leaves; shared ones must also take the bundle's kind of topics."""
    eligible = eligibility.brokers_for(request.namespace)
    if eligibility.policy_of(request.namespace) is not None:
        return [name for name in candidates if name in eligible]
    return [name for name in candidates if name in eligible and _takes(facts[name], request.is_non_persistent)]


def filter_modular(
    facts: Mapping[str, BrokerFacts], eligibility: Eligibility, request: PlacementRequest, settings: PulsarSettings
) -> FilteredBrokers:
    """The candidates of the modular manager; `eligibility` is over the live brokers, which are those of `facts`."""
    allowed = find_isolated_or_shared(sorted(facts), facts, eligibility, request)
    left = keep_up_to_topic_limit(allowed, _topics(facts), settings.broker_max_topics)
    if request.group_owned is not None:
        left = keep_least_anti_affinity(left, request.group_owned, _domains(request, settings))
    if settings.distribute_bundles_evenly_enabled or request.namespace == SYSTEM_NAMESPACE:
        left = keep_least_of_namespace(left, request.namespace_owned)
    left = keep_load_manager_class(left, facts, request.load_manager_class)
    try:
        left = _keep_preferred_version(left, facts, settings)
    except InputError as error:
        return FilteredBrokers(allowed, (str(error),))
    return FilteredBrokers(left or allowed)


def filter_extensible(
    facts: Mapping[str, BrokerFacts], eligibility: Eligibility, request: PlacementRequest, settings: PulsarSettings
) -> FilteredBrokers:
    """The candidates of the extensible manager; `eligibility` is over the live brokers, which are those of `facts`."""
    failures: tuple[str, ...] = ()
    left = keep_load_manager_class(sorted(facts), facts, request.load_manager_class)
    left = keep_below_topic_limit(left, _topics(facts), settings.broker_max_topics)
    try:
        left = _keep_preferred_version(left, facts, settings)
    except InputError as error:
        failures = (str(error),)
    if request.group_owned is not None:
        left = keep_least_anti_affinity(left, request.group_owned, _domains(request, settings))
    # Pulsar counts primaries among what the filters before it left, not among all live brokers.
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
    """Whether TransferShedder may move a bundle from its owner to a destination, given what the filters left."""
    if not may_shed_with_policies(has_isolation, has_anti_affinity, settings.shedding_bundles_with_policies_enabled):
        return False
    if filtered.failures or destination not in filtered.brokers:
        return False
    if settings.transfer_enabled:
        return destination != source
    return any(name != source for name in filtered.brokers)


def _keep_preferred_version(
    candidates: Sequence[str], facts: Mapping[str, BrokerFacts], settings: PulsarSettings
) -> list[str]:
    if not settings.prefer_later_versions:
        return list(candidates)
    if not candidates:
        return []
    return keep_latest_version(candidates, {name: facts[name].version for name in candidates})


def _domains(request: PlacementRequest, settings: PulsarSettings) -> Mapping[str, str] | None:
    return request.domains if settings.failure_domains_enabled else None


def _topics(facts: Mapping[str, BrokerFacts]) -> dict[str, int | None]:
    return {name: each.topics for name, each in facts.items()}


def _takes(facts: BrokerFacts, is_non_persistent: bool) -> bool:
    return facts.takes_non_persistent if is_non_persistent else facts.takes_persistent
