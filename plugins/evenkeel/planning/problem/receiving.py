"""Which brokers may receive bundles, by those of Pulsar's filters that ignore load and anti-affinity groups."""

from __future__ import annotations

from collections.abc import Sequence

from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, BrokerState, LoadManager
from evenkeel.planning.problem.pools import live_broker_ids
from evenkeel.pulsar_rules.eligibility import Eligibility
from evenkeel.pulsar_rules.placement import keep_latest_version


def find_receivers(brokers: Sequence[Broker], settings: Settings) -> frozenset[str]:
    """Find the Active brokers; with `prefer_later_versions`, only those with the latest version among them.

    Pulsar compares all registered brokers. Here a broker that is being emptied does not count: if it alone had the
    latest version, its bundles could go nowhere. Brokers of the modular manager are compared by `find_outdated`.
    """
    active = [broker for broker in brokers if broker.state == BrokerState.ACTIVE]
    latest = frozenset(_keep_latest(active)) if settings.prefer_later_versions else None
    return frozenset(
        broker.broker_id
        for broker in active
        if latest is None or broker.broker_id in latest or broker.load_manager == LoadManager.MODULAR
    )


def may_serve(broker: Broker, policy: str | None) -> bool:
    """Whether a broker may receive bundles under an isolation policy, or without one if it takes persistent topics.

    Pulsar checks for non-persistent topics instead if it knows that a bundle holds such topics. A snapshot does not
    contain that, so a broker without persistent topics keeps what it owns and receives nothing.
    """
    return policy is not None or broker.takes_persistent_topics is not False


def find_outdated(allowed: Sequence[Broker], settings: Settings) -> frozenset[str]:
    """Find the brokers that the modular manager's version filter excludes among those that may serve a namespace.

    The extensible manager compares versions before isolation, so its brokers are never found here.
    """
    if not settings.prefer_later_versions:
        return frozenset()
    active = [broker for broker in allowed if broker.state == BrokerState.ACTIVE]
    modular = frozenset(broker.broker_id for broker in active if broker.load_manager == LoadManager.MODULAR)
    return modular - frozenset(_keep_latest(active))


class Receivers:
    """Tells which of Pulsar's filters refuses a destination; built once per snapshot."""

    def __init__(self, brokers: Sequence[Broker], policies: Policies, settings: Settings) -> None:
        self._brokers = {broker.broker_id: broker for broker in brokers}
        self._eligibility = Eligibility(live_broker_ids(brokers), policies)
        self._receivers = find_receivers(brokers, settings)
        self._settings = settings

    def is_misplaced(self, namespace: str, owner: str) -> bool:
        """Whether isolation policies forbid an owner to keep the bundles of a namespace."""
        return owner not in self._eligibility.brokers_for(namespace)

    def find_refusal(self, namespace: str, source: Broker | None, destination: Broker) -> tuple[str, str] | None:
        """The rule that refuses a destination, with an explanation; None if every filter allows it."""
        name = destination.broker_id
        if destination.state != BrokerState.ACTIVE:
            return "not-active", f"{name} is {destination.state} and may not receive"
        if name in self._settings.brokers_left_alone:
            return "left-alone", f"{name} is to be left alone by the settings"
        if source is not None and source.load_manager != destination.load_manager:
            return "load-manager", f"{name} runs the load manager {destination.load_manager}, not {source.load_manager}"
        if self._is_outdated(namespace, destination):
            return "version-filter", f"{name} runs {destination.version}, and brokers of a later version are preferred"
        if name not in self._eligible_for(namespace, destination):
            policy = self._eligibility.policy_of(namespace)
            by = f"isolation policy {policy}" if policy else "the isolation policies of others"
            return "not-eligible", f"{name} may not own {namespace} by {by}"
        if not may_serve(destination, self._eligibility.policy_of(namespace)):
            return "persistent-topics", f"{name} serves no persistent topics"
        return None

    def _is_outdated(self, namespace: str, destination: Broker) -> bool:
        """Whether the version filter excludes a broker; the modular manager applies it after isolation policies."""
        if not self._settings.prefer_later_versions:
            return False
        if destination.load_manager != LoadManager.MODULAR:
            return destination.broker_id not in self._receivers
        allowed = [self._brokers[name] for name in sorted(self._eligibility.brokers_for(namespace))]
        policy = self._eligibility.policy_of(namespace)
        return destination.broker_id in find_outdated([b for b in allowed if may_serve(b, policy)], self._settings)

    def _eligible_for(self, namespace: str, destination: Broker) -> frozenset[str]:
        if not self._settings.prefer_later_versions or destination.load_manager == LoadManager.MODULAR:
            return self._eligibility.brokers_for(namespace)
        # Primaries with an older version do not count, so secondaries may be used instead.
        return self._eligibility.among(sorted(self._receivers)).brokers_for(namespace)


def _keep_latest(brokers: Sequence[Broker]) -> list[str]:
    names = [broker.broker_id for broker in brokers]
    try:
        return keep_latest_version(names, {broker.broker_id: broker.version for broker in brokers})
    except InputError:
        # Pulsar skips this filter if a version is missing or malformed.
        return names
