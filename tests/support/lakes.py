"""Small snapshots in a lake, from literal rows."""

from __future__ import annotations

import dataclasses
import json
import random
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from evenkeel import __version__
from evenkeel.adapters.lake.requests import RequestStore
from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake, to_arrow
from evenkeel.model.bundles import RING_END, BundleName, ranges_between
from evenkeel.model.request import PlanRequest
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import (
    SNAPSHOT_TABLES,
    Broker,
    Bundle,
    LoadManager,
    PolicyDocument,
    SnapshotManifest,
    Topic,
)

CLUSTER = "test"
# A Monday, so that the hour of the week is the hour of the day.
TAKEN_AT = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def make_broker(broker_id: str, **fields: Any) -> Broker:
    """An Active broker with 8 cores, half of them in use, and a 10 Gbit/s NIC."""
    defaults: dict[str, Any] = {
        "incarnation": 1,
        "state": "Active",
        "version": "4.2.4",
        "load_manager": str(LoadManager.EXTENSIBLE),
        "failure_domain": None,
        "reported_at": TAKEN_AT,
        "web_service_url": f"http://{broker_id}",
        "cpu_usage_percent": 400.0,
        "cpu_limit_percent": 800.0,
        "bandwidth_in_limit_kbps": 1e7,
        "bandwidth_out_limit_kbps": 1e7,
    }
    return Broker(broker_id, **(defaults | fields))


def make_bundle(name: str, owner: str | None = "b1:8080", **fields: Any) -> Bundle:
    """A bundle of its parsed name, Owned unless it has no owner."""
    parsed = BundleName.parse(name)
    defaults: dict[str, Any] = {"state": "Init" if owner is None else "Owned", "version_id": 1, "znode_version": 0}
    return Bundle(
        tenant=parsed.tenant,
        namespace=parsed.namespace,
        bundle=name,
        range_lower=parsed.range.lower,
        range_upper=parsed.range.upper,
        owner=owner,
        **(defaults | fields),
    )


def make_policy(kind: str, document: Any, name: str = "", path: str | None = None, version: int = 0) -> PolicyDocument:
    return PolicyDocument(kind, name, json.dumps(document), path, *(() if path is None else (version, 17)))


def write_snapshot(
    lake: Lake,
    bundles: Sequence[Bundle],
    brokers: Sequence[Broker] = (),
    policies: Sequence[PolicyDocument] = (),
    taken_at: datetime = TAKEN_AT,
    cluster: str = CLUSTER,
    topics: Sequence[Topic] = (),
) -> SnapshotManifest:
    """Commit a snapshot; where no brokers are given, there is one for each owner."""
    owners = sorted({bundle.owner for bundle in bundles if bundle.owner is not None})
    rows: Mapping[str, Sequence[Any]] = {
        "brokers": brokers or [make_broker(owner) for owner in owners],
        "bundles": bundles,
        "topics": topics,
        "policies": policies,
    }
    tables = {name: to_arrow(table, rows[name]) for name, table in SNAPSHOT_TABLES.items()}
    return SnapshotStore(lake).write(SnapshotContent(cluster, taken_at, LoadManager.EXTENSIBLE, tables))


def write_request(
    lake: Lake,
    snapshot_id: str,
    request_id: str = "request-1",
    settings: Settings | None = None,
    strategy: str = "certified",
    cluster: str = CLUSTER,
) -> PlanRequest:
    """Put a request to plan a snapshot into the lake."""
    values = (settings or Settings()).to_json()
    request = PlanRequest(request_id, cluster, snapshot_id, strategy, json.loads(json.dumps(values)), __version__)
    RequestStore(lake).write(request)
    return request


def make_random_bundles(brokers: int, bundles_per_broker: int, seed: int, namespaces: int = 60) -> list[Bundle]:
    """A lopsided cluster: loads are skewed, and low-numbered brokers own more of them."""
    source = random.Random(seed)
    total = brokers * bundles_per_broker
    counts = [total // namespaces + (place < total % namespaces) for place in range(namespaces)]
    bundles = []
    for place, count in enumerate(counts):
        edges = [*(index * (RING_END // count) for index in range(count)), RING_END]
        for part in ranges_between(edges):
            owner = min(source.randrange(brokers), source.randrange(brokers))
            bundles.append(_random_bundle(f"tenant-{place % 7}/ns-{place:03}/{part}", f"b{owner:03}:8080", source))
    return bundles


def make_random_brokers(brokers: int, seed: int) -> list[Broker]:
    source = random.Random(seed)
    return [
        make_broker(f"b{place:03}:8080", incarnation=1_000 + place, cpu_usage_percent=source.uniform(80.0, 700.0))
        for place in range(brokers)
    ]


def shift_load(bundles: Sequence[Bundle], factor: float) -> list[Bundle]:
    """The same bundles with their rates and throughputs times a factor."""
    rates = [field.name for field in dataclasses.fields(Bundle) if field.name.endswith("_per_s")]
    return [dataclasses.replace(b, **{name: getattr(b, name) * factor for name in rates}) for b in bundles]


def _random_bundle(name: str, owner: str, source: random.Random) -> Bundle:
    throughput_in = source.lognormvariate(11.0, 1.2)
    throughput_out = throughput_in * source.uniform(0.5, 3.0)
    return make_bundle(
        name,
        owner,
        version_id=source.randrange(1, 50),
        msg_rate_in_per_s=throughput_in / 900.0,
        msg_rate_out_per_s=throughput_out / 900.0,
        throughput_in_bytes_per_s=throughput_in,
        throughput_out_bytes_per_s=throughput_out,
        topics=source.randrange(1, 60),
        producers=source.randrange(1, 30),
        consumers=source.randrange(1, 60),
        reported_at=TAKEN_AT,
    )
