"""The small cluster as a plan by hand knows it, and journals of runs on it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from evenkeel.model.plan import StepKind
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, PolicyDocument, Topic
from evenkeel.planning.manual.build_plan import LoadedSnapshot
from evenkeel.planning.manual.inverse import AppliedStep
from support import small_cluster
from support.small_cluster import TAKEN_AT

PLAN_ID = "feed" * 16


def known(
    brokers: Sequence[Broker] | None = None,
    bundles: Sequence[Bundle] | None = None,
    topics: Sequence[Topic] = (),
    documents: Sequence[PolicyDocument] = (),
    settings: Settings | None = None,
) -> LoadedSnapshot:
    """The small cluster, or what a test makes of it."""
    return LoadedSnapshot(
        cluster="fleet",
        load_manager="extensible",
        snapshot_id=small_cluster.manifest().snapshot_id,
        taken_at=TAKEN_AT,
        brokers=small_cluster.brokers() if brokers is None else brokers,
        bundles=small_cluster.bundles() if bundles is None else bundles,
        topics=topics,
        documents=documents,
        settings=settings or Settings(),
        library_version="1.0.0",
    )


def pinned_to(*hosts: str) -> PolicyDocument:
    """An isolation policy that allows shop/orders these hosts only."""
    failover = {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}}
    rule = {"namespaces": ["shop/orders"], "primary": list(hosts), "secondary": [], "auto_failover_policy": failover}
    return PolicyDocument("isolation", "", json.dumps({"pinned": rule}))


def deed(order: int, bundle: str, source: str, destination: str | None, **changes: Any) -> AppliedStep:
    """A step that settled, unless the changes say otherwise."""
    kind = changes.pop("kind", StepKind.TRANSFER)
    fields: dict[str, Any] = {"epoch": 3, "state": StepState.SETTLED, "at_ms": 1_000 + order} | changes
    return AppliedStep(kind, JournalEntry(PLAN_ID, order, bundle, source, destination, **fields))
