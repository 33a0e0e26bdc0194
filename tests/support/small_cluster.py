"""A cluster small enough to know by heart: three brokers, two namespaces, six bundles.

b01.fleet:8080   shop/orders 0-3f, 40-7f, 80-bf          hot
b02.fleet:8080   shop/orders c0-ff, shop/audit 00-7f
b03.fleet:8080   shop/audit 80-ff
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pyarrow as pa

from evenkeel.adapters.lake.store import to_arrow
from evenkeel.gates.plan_gate import JudgedSnapshot
from evenkeel.model.bundles import RING_END, BundleName, ranges_between
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import (
    Broker,
    BrokerState,
    Bundle,
    LoadManager,
    PolicyDocument,
    SnapshotManifest,
    TableFile,
    Topic,
)
from evenkeel_spark.driver_loads import DriverLoads

TAKEN_AT = datetime(2026, 1, 31, 3, 0, tzinfo=UTC)
B01, B02, B03 = "b01.fleet:8080", "b02.fleet:8080", "b03.fleet:8080"
QUARTERS = (0, 0x40000000, 0x80000000, 0xC0000000, RING_END)
HALVES = (0, 0x80000000, RING_END)
MEGABYTE = 1_000_000
KILOBIT_BYTES = 125


def brokers() -> list[Broker]:
    """Three brokers whose measured bandwidth is what their bundles sum to."""
    return [_broker(B01, 101, 60.0, 60), _broker(B02, 102, 20.0, 20), _broker(B03, 103, 10.0, 10)]


def bundles() -> list[Bundle]:
    """Six bundles that tile the ring of two namespaces, all owned."""
    owners = [("shop/orders", QUARTERS, (B01, B01, B01, B02), 20), ("shop/audit", HALVES, (B02, B03), 10)]
    return [
        _bundle(namespace, part, owner, megabytes if owner != B02 else 10)
        for namespace, points, its_owners, megabytes in owners
        for part, owner in zip(ranges_between(points), its_owners, strict=True)
    ]


def manifest(**changes: Any) -> SnapshotManifest:
    """The manifest of the snapshot."""
    tables = {name: TableFile(f"{name}.parquet", 1, "0" * 64) for name in ("brokers", "bundles", "topics", "policies")}
    made = SnapshotManifest("fleet", TAKEN_AT, LoadManager.EXTENSIBLE, tables, "1.0.0")
    return dataclasses.replace(made, **changes)


def tables(
    broker_rows: Sequence[Broker] | None = None,
    bundle_rows: Sequence[Bundle] | None = None,
    policy_rows: Sequence[PolicyDocument] = (),
) -> dict[str, pa.Table]:
    """The snapshot's tables."""
    return {
        "brokers": to_arrow(Broker, brokers() if broker_rows is None else broker_rows),
        "bundles": to_arrow(Bundle, bundles() if bundle_rows is None else bundle_rows),
        "topics": to_arrow(Topic, []),
        "policies": to_arrow(PolicyDocument, policy_rows),
    }


def judged(
    settings: Settings, broker_rows: Sequence[Broker] | None = None, policy_rows: Sequence[PolicyDocument] = ()
) -> JudgedSnapshot:
    """The snapshot as the gate of plans takes it, with the load of now."""
    chosen = brokers() if broker_rows is None else broker_rows
    rows = tables(chosen, policy_rows=policy_rows)
    loads = DriverLoads.of_snapshot(rows["bundles"], None, rows["topics"], chosen, (), settings)
    return JudgedSnapshot(chosen, Policies.from_documents(policy_rows), loads)


def change(rows: Iterable[Any], key: str, value: str, **changes: Any) -> list[Any]:
    """The rows with the one whose key has this value changed."""
    rows = list(rows)
    assert sum(getattr(row, key) == value for row in rows) == 1
    return [dataclasses.replace(row, **changes) if getattr(row, key) == value else row for row in rows]


def _broker(broker_id: str, incarnation: int, cpu: float, megabytes: int) -> Broker:
    return Broker(
        broker_id=broker_id,
        incarnation=incarnation,
        state=str(BrokerState.ACTIVE),
        version="4.2.4",
        load_manager=str(LoadManager.EXTENSIBLE),
        failure_domain=None,
        reported_at=TAKEN_AT - timedelta(seconds=20),
        web_service_url=f"http://{broker_id}",
        cpu_usage_percent=cpu,
        cpu_limit_percent=400.0,
        bandwidth_in_usage_kbps=megabytes * MEGABYTE / KILOBIT_BYTES,
        bandwidth_in_limit_kbps=1_000_000.0,
        bandwidth_out_usage_kbps=megabytes * MEGABYTE / KILOBIT_BYTES,
        bandwidth_out_limit_kbps=1_000_000.0,
    )


def _bundle(namespace: str, part: Any, owner: str, megabytes: int) -> Bundle:
    tenant, _, local = namespace.partition("/")
    return Bundle(
        tenant=tenant,
        namespace=namespace,
        bundle=str(BundleName(tenant, local, part)),
        range_lower=part.lower,
        range_upper=part.upper,
        owner=owner,
        state="Owned",
        version_id=7,
        znode_version=6,
        msg_rate_in_per_s=100.0,
        msg_rate_out_per_s=100.0,
        throughput_in_bytes_per_s=float(megabytes * MEGABYTE),
        throughput_out_bytes_per_s=float(megabytes * MEGABYTE),
        topics=10,
        producers=5,
        consumers=5,
        reported_at=TAKEN_AT - timedelta(seconds=20),
    )
