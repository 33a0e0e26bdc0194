"""What narrows down the brokers that may get a bundle, one rule each.

Every filter takes the candidates and returns those that stay, in their order; none looks at load. Isolation is
in `eligibility`; how the filters follow each other, in `filter_pipelines`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.pulsar.versions import version_key

DEFAULT_DOMAIN = "default"


@dataclass(frozen=True, slots=True)
class BrokerFacts:
    """What the filters know of a broker; topics are None where it reported none."""

    load_manager_class: str | None = None
    version: str | None = None
    topics: int | None = None
    takes_persistent: bool = True
    takes_non_persistent: bool = True


def keep_load_manager_class(
    candidates: Sequence[str], facts: Mapping[str, BrokerFacts], load_manager_class: str | None
) -> list[str]:
    """The brokers that run the load manager of the broker that decides."""
    return [name for name in candidates if facts[name].load_manager_class == load_manager_class]


def keep_below_topic_limit(candidates: Sequence[str], topics: Mapping[str, int | None], limit: int) -> list[str]:
    """The brokers with fewer topics than the limit (extensible manager); nothing may be left."""
    return [name for name in candidates if (topics.get(name) or 0) < limit]


def keep_up_to_topic_limit(candidates: Sequence[str], topics: Mapping[str, int | None], limit: int) -> list[str]:
    """The brokers with at most as many topics as the limit (modular manager); all of them if none is."""
    return [name for name in candidates if (topics.get(name) or 0) <= limit] or list(candidates)


def keep_latest_version(candidates: Sequence[str], versions: Mapping[str, str | None]) -> list[str]:
    """The brokers of the newest version; a missing or malformed version is an InputError."""
    keys = {name: version_key(versions[name]) for name in candidates}
    latest = max(keys.values(), default=None)
    return [name for name in candidates if keys[name] == latest]


def keep_least_anti_affinity(
    candidates: Sequence[str], owned: Mapping[str, int], domains: Mapping[str, str] | None
) -> list[str]:
    """The brokers that own the least of an anti-affinity group, in the failure domains that own the least of it.

    `owned` counts the group on each broker, by namespaces in the modular manager and by bundles in the extensible.
    Without domains (None or empty, as where `failure_domains_enabled` is off) brokers are compared alone.
    """
    left = list(candidates)
    if domains:
        of_domain: Counter[str] = Counter()
        for name in left:
            of_domain[domains.get(name, DEFAULT_DOMAIN)] += owned.get(name, 0)
        fewest = min(of_domain.values(), default=0)
        left = [name for name in left if of_domain[domains.get(name, DEFAULT_DOMAIN)] == fewest]
    return _keep_least(left, owned)


def keep_least_of_namespace(candidates: Sequence[str], bundles: Mapping[str, int]) -> list[str]:
    """The brokers that own the fewest bundles of the namespace (modular manager's even spread)."""
    return _keep_least(candidates, bundles)


def may_unload_anti_affinity(current: str, candidates: Collection[str], owned: Mapping[str, int]) -> bool:
    """Whether an unload of a group's bundle can end on another broker; not where all own equally many."""
    if not owned:
        return True
    counts = [owned.get(name, 0) for name in candidates]
    if not counts:
        return False
    fewest = min(counts)
    of_current = owned.get(current, 0) if current in candidates else 0
    return fewest == 0 or of_current > fewest or any(count != fewest for count in counts)


def may_shed_with_policies(has_isolation: bool, has_anti_affinity: bool, is_enabled: bool) -> bool:
    """Whether TransferShedder may touch a bundle: one under policies only where the settings say so."""
    return is_enabled or not (has_isolation or has_anti_affinity)


def _keep_least(candidates: Sequence[str], counts: Mapping[str, int]) -> list[str]:
    fewest = min((counts.get(name, 0) for name in candidates), default=0)
    return [name for name in candidates if counts.get(name, 0) == fewest]
