"""Which namespaces Pulsar treats as its own, by the names that it gives them."""

from __future__ import annotations

import re

SYSTEM_NAMESPACE = "pulsar/system"
_PINNED = re.compile(r"(?:pulsar|sla-monitor)/[^:]+:\d+", re.ASCII)


def namespace_of(bundle: str) -> str:
    """The namespace in a bundle's name; the whole name where it has no range."""
    namespace, slash, _ = bundle.rpartition("/")
    return namespace if slash else bundle


def is_pinned(namespace: str) -> bool:
    """Whether a namespace belongs to one broker for good: heartbeat and SLA monitor do."""
    return _PINNED.fullmatch(namespace) is not None


def is_system(namespace: str) -> bool:
    """Whether a broker leaves a namespace out of its report of top bundles."""
    return namespace == SYSTEM_NAMESPACE or is_pinned(namespace)
