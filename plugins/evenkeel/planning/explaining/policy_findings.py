"""Find policies that contradict each other or the cluster, and say how Pulsar treats them.

The sentences are stored in the table of rejections and are part of the plan id.
"""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from evenkeel.model.plan import Rejection
from evenkeel.model.policies import IsolationPolicy, Policies
from evenkeel.planning.explaining.words import list_some
from evenkeel.pulsar_rules.eligibility import Eligibility


def explain_policies(policies: Policies, broker_ids: Sequence[str], namespaces: Iterable[str]) -> list[Rejection]:
    """One row per contradiction that concerns one of these namespaces; `broker_ids` are the live brokers."""
    names = sorted(set(namespaces))
    rules = [_Rule(policy, broker_ids) for policy in policies.isolation]
    return [
        *_explain_empty(rules, names),
        *_explain_overlaps(rules, names),
        *_explain_shared(policies, broker_ids, rules, names),
        *_explain_domains(policies),
    ]


class _Rule:
    """One isolation policy, evaluated as if it were the only one."""

    def __init__(self, policy: IsolationPolicy, broker_ids: Sequence[str]) -> None:
        self.name = policy.name
        self.has_secondaries = bool(policy.secondary)
        self._alone = Eligibility(broker_ids, Policies(isolation=(policy,)))
        # The brokers that a namespace without a policy may not use are the policy's primaries.
        unruled = Eligibility(broker_ids, Policies(isolation=(dataclasses.replace(policy, namespaces=()),)))
        self.primaries = frozenset(broker_ids) - unruled.brokers_for("")

    def names(self, namespace: str) -> bool:
        return self._alone.policy_of(namespace) is not None

    def brokers_for(self, namespace: str) -> frozenset[str]:
        return self._alone.brokers_for(namespace)


def _explain_empty(rules: Sequence[_Rule], names: Sequence[str]) -> Iterator[Rejection]:
    """Find policies whose primaries match no live broker."""
    for rule in rules:
        ruled = [name for name in names if rule.names(name)]
        if not ruled or rule.primaries:
            continue
        if rule.brokers_for(ruled[0]):
            outcome = f"its secondaries alone serve {list_some(ruled)}"
        else:
            outcome = f"{'its secondaries neither' if rule.has_secondaries else 'it has no secondaries'}: "
            outcome += f"no broker may own {list_some(ruled)}"
        detail = f"the primaries of isolation policy {rule.name} match no live broker, {outcome}"
        yield _finding("policy-without-brokers", detail)


def _explain_overlaps(rules: Sequence[_Rule], names: Sequence[str]) -> Iterator[Rejection]:
    """Find namespaces that several policies match."""
    shadowed: dict[tuple[int, int], list[str]] = defaultdict(list)
    for name in names:
        first, *others = [number for number, rule in enumerate(rules) if rule.names(name)] or [-1]
        for other in others:
            shadowed[first, other].append(name)
    for (first, other), both in sorted(shadowed.items()):
        detail = (
            f"isolation policies {rules[first].name} and {rules[other].name} both name {list_some(both)}: "
            f"Pulsar goes by the first in its map, {rules[first].name}"
        )
        yield _finding("policy-overlap", detail)


def _explain_shared(
    policies: Policies, broker_ids: Sequence[str], rules: Sequence[_Rule], names: Sequence[str]
) -> Iterator[Rejection]:
    """Find out whether the policies leave no broker for the namespaces that none of them matches."""
    eligibility = Eligibility(broker_ids, policies)
    unruled = [name for name in names if eligibility.policy_of(name) is None]
    if not broker_ids or not unruled or eligibility.brokers_for(unruled[0]):
        return
    detail = (
        f"isolation policies ({list_some([rule.name for rule in rules])}) reserve every live broker: none may own "
        f"{list_some(unruled)}, which no policy names"
    )
    yield _finding("no-shared-broker", detail)


def _explain_domains(policies: Policies) -> Iterator[Rejection]:
    """Find brokers that are in several failure domains."""
    listed = Counter(broker for brokers in policies.failure_domains.values() for broker in set(brokers))
    for broker in sorted(broker for broker, times in listed.items() if times > 1):
        domains = sorted(domain for domain, brokers in policies.failure_domains.items() if broker in brokers)
        detail = f"the failure domains {list_some(domains)} all list {broker}; it is counted in {domains[-1]}"
        yield _finding("failure-domain-overlap", detail)


def _finding(rule: str, detail: str) -> Rejection:
    return Rejection("", "plan", None, None, rule, detail)
