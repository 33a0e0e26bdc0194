"""Which brokers may own a namespace by Pulsar's isolation policies, and which namespaces are Pulsar's own.

Anti-affinity and load are checked elsewhere.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence

from evenkeel.model.errors import InputError
from evenkeel.model.policies import IsolationPolicy, Policies

SYSTEM_NAMESPACE = "pulsar/system"
_PINNED = re.compile(r"(?:pulsar|sla-monitor)/[^:]+:\d+", re.ASCII)
# A pattern of these characters matches only itself, so a lookup replaces the match.
_LITERAL = re.compile(r"[\w/=:-]+", re.ASCII)
_ESCAPED = re.compile(r"\\.", re.DOTALL)
# An escaped bracket outside a class opens none; a bracket right at the start of a class does not close it.
_CLASS_BODY = re.compile(r"\\.|\[\^?(\]?(?:\\.|[^\]\\])*)", re.DOTALL)


def namespace_of(bundle: str) -> str:
    """The namespace part of a bundle's name; the whole name if it has no range."""
    namespace, slash, _ = bundle.rpartition("/")
    return namespace if slash else bundle


def is_pinned(namespace: str) -> bool:
    """Whether a namespace is bound to one broker, as the heartbeat and SLA monitor namespaces are."""
    return _PINNED.fullmatch(namespace) is not None


def is_system(namespace: str) -> bool:
    """Whether brokers leave a namespace out of their reports of top bundles."""
    return namespace == SYSTEM_NAMESPACE or is_pinned(namespace)


def host_of(broker_id: str) -> str:
    """The part of a broker id that isolation policies match: everything before the last colon."""
    host, colon, _ = broker_id.rpartition(":")
    return host if colon else broker_id


class Eligibility:
    """Pulsar's isolation policies for one set of live brokers.

    The policy of a namespace is the first in the map of which a `namespaces` pattern matches the whole name. With a
    policy, its live primaries are eligible, and its secondaries too while fewer than `min_limit` primaries are live.
    Without a policy, the brokers are eligible that no policy names as primaries.
    """

    def __init__(self, broker_ids: Sequence[str], policies: Policies) -> None:
        self._broker_ids = tuple(sorted(broker_ids))
        self._policies = policies.isolation
        self._primary = [_compile(policy, policy.primary) for policy in self._policies]
        self._secondary = [_compile(policy, policy.secondary) for policy in self._policies]
        self._literals: dict[str, int] = {}
        self._patterns: list[tuple[int, re.Pattern[str]]] = []
        for index, policy in enumerate(self._policies):
            self._index_namespaces(index, policy)
        self._policy_index: dict[str, int | None] = {}
        self._brokers: dict[int | None, frozenset[str]] = {}

    def among(self, broker_ids: Sequence[str]) -> Eligibility:
        """The same policies for another set of live brokers."""
        narrowed = copy.copy(self)
        narrowed._broker_ids = tuple(sorted(broker_ids))
        narrowed._brokers = {}
        return narrowed

    def policy_of(self, namespace: str) -> str | None:
        """The name of a namespace's policy; None if it uses the shared brokers."""
        index = self._find_policy(namespace)
        return None if index is None else self._policies[index].name

    def brokers_for(self, namespace: str) -> frozenset[str]:
        """The live brokers that may own the bundles of a namespace; possibly none."""
        index = self._find_policy(namespace)
        if index not in self._brokers:
            self._brokers[index] = self._shared() if index is None else self._isolated(index)
        return self._brokers[index]

    def _index_namespaces(self, index: int, policy: IsolationPolicy) -> None:
        for text, pattern in zip(policy.namespaces, _compile(policy, policy.namespaces), strict=True):
            if _LITERAL.fullmatch(text):
                self._literals.setdefault(text, index)
            else:
                self._patterns.append((index, pattern))

    def _find_policy(self, namespace: str) -> int | None:
        if namespace not in self._policy_index:
            first = self._literals.get(namespace)
            for index, pattern in self._patterns:
                if first is not None and index >= first:
                    break
                if pattern.fullmatch(namespace):
                    first = index
                    break
            self._policy_index[namespace] = first
        return self._policy_index[namespace]

    def _shared(self) -> frozenset[str]:
        claims = [pattern for patterns in self._primary for pattern in patterns]
        return frozenset(broker for broker in self._broker_ids if not _matches_any(claims, host_of(broker)))

    def _isolated(self, index: int) -> frozenset[str]:
        primaries = {broker for broker in self._broker_ids if _matches_any(self._primary[index], host_of(broker))}
        if len(primaries) >= self._policies[index].min_limit:
            return frozenset(primaries)
        secondaries = {broker for broker in self._broker_ids if _matches_any(self._secondary[index], host_of(broker))}
        return frozenset(primaries | secondaries)


def _compile(policy: IsolationPolicy, patterns: Sequence[str]) -> list[re.Pattern[str]]:
    compiled = []
    for pattern in patterns:
        if _has_nested_class(pattern):
            raise _not_understood(policy, pattern, "a character class inside another")
        try:
            # Java's character classes are ASCII unless told otherwise.
            compiled.append(re.compile(pattern, re.ASCII))
        except (re.error, OverflowError) as error:
            raise _not_understood(policy, pattern, error) from error
    return compiled


def _not_understood(policy: IsolationPolicy, pattern: str, why: object) -> InputError:
    return InputError(
        f"isolation policy {policy.name!r}: {pattern!r} is not a supported regular expression ({why})",
        "use only syntax that Java and Python have in common",
    )


def _has_nested_class(pattern: str) -> bool:
    """Whether a character class contains a union or an intersection, which Python would read as plain characters."""
    bodies = (_ESCAPED.sub("", body) for body in _CLASS_BODY.findall(pattern))
    return any("[" in body or "&&" in body for body in bodies)


def _matches_any(patterns: Sequence[re.Pattern[str]], text: str) -> bool:
    return any(pattern.fullmatch(text) for pattern in patterns)
