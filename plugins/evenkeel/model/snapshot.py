"""A snapshot: four tables of the cluster at one moment, and the manifest that commits them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from evenkeel.model.canonical import digest, short_id
from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import check_schema_version, decoding
from evenkeel.model.tables import column
from evenkeel.model.timestamps import format_time, parse_time

SNAPSHOT_SCHEMA_VERSION = 1


class LoadManager(StrEnum):
    """How a cluster stores ownership and load, and so how a step is applied."""

    EXTENSIBLE = "extensible"
    EXTENSIBLE_SYSTEM_TOPIC = "extensible-system-topic"
    MODULAR = "modular"
    IMPORTED = "imported"


class BrokerState(StrEnum):
    """A broker as KIP-343 sees it; only an Active one may receive bundles."""

    INITIAL = "Initial"
    ACTIVE = "Active"
    INACTIVE = "Inactive"
    STOPPING = "Stopping"


@dataclass(frozen=True, slots=True)
class Broker:
    """A row of the table `brokers`."""

    broker_id: str = column("Pulsar's broker id, host:port of its web service; not an address to connect to")
    incarnation: int | None = column(
        "zxid at which the broker registered: mzxid of its registration node, czxid on modular clusters; "
        "null for an imported cluster"
    )
    state: str = column("Initial, Active, Inactive or Stopping, as KIP-343 names them")
    version: str | None = column("Pulsar version that the broker reports")
    load_manager: str = column("extensible, extensible-system-topic, modular or imported")
    failure_domain: str | None = column("name of the failure domain that lists the broker")
    reported_at: datetime | None = column("time of the broker's load report; null where there is none")
    web_service_url: str | None = column("where the broker's HTTP service answers")
    cpu_usage_percent: float | None = column("cpu in use, 100 a core", None)
    cpu_limit_percent: float | None = column("cpu there is, 100 a core; null is unknown", None)
    memory_usage_mib: float | None = column("JVM heap in use", None)
    memory_limit_mib: float | None = column("JVM heap there is; null is unknown", None)
    direct_memory_usage_mib: float | None = column("direct memory in use", None)
    direct_memory_limit_mib: float | None = column("direct memory there is; null is unknown", None)
    bandwidth_in_usage_kbps: float | None = column("NIC traffic in, kilobit per second", None)
    bandwidth_in_limit_kbps: float | None = column("NIC speed in, kilobit per second; null is unknown", None)
    bandwidth_out_usage_kbps: float | None = column("NIC traffic out, kilobit per second", None)
    bandwidth_out_limit_kbps: float | None = column("NIC speed out, kilobit per second; null is unknown", None)
    takes_persistent_topics: bool | None = column("whether it serves persistent topics; null is unknown: yes", None)


@dataclass(frozen=True, slots=True)
class Bundle:
    """A row of the table `bundles`."""

    tenant: str = column("tenant of the namespace")
    namespace: str = column("namespace with its tenant, tenant/namespace")
    bundle: str = column("Pulsar's name of the bundle, tenant/namespace/0x…_0x…")
    range_lower: int = column("first hash of the range")
    range_upper: int = column("end of the range, exclusive unless it is the ring's end")
    owner: str | None = column("broker id of the owner; null for an idle bundle")
    state: str = column("service-unit state; Owned for a modular owner, Init where nobody owns it")
    version_id: int | None = column("logical version of the service-unit record; null for other kinds of cluster")
    znode_version: int | None = column("version of the ownership node; null where there is none")
    msg_rate_in_per_s: float = column("messages published per second", 0.0)
    msg_rate_out_per_s: float = column("messages delivered per second", 0.0)
    throughput_in_bytes_per_s: float = column("bytes published per second", 0.0)
    throughput_out_bytes_per_s: float = column("bytes delivered per second", 0.0)
    topics: int = column("loaded topics", 0)
    producers: int = column("connected producers", 0)
    consumers: int = column("connected consumers", 0)
    reported_at: datetime | None = column("time of the report that the load comes from", None)


@dataclass(frozen=True, slots=True)
class Topic:
    """A row of the table `topics`."""

    topic: str = column("full topic name with its domain and partition suffix")
    bundle: str = column("bundle that the topic's hash falls into")
    hash: int = column("CRC-32 of the full topic name")
    msg_rate_in_per_s: float = column("messages published per second", 0.0)
    msg_rate_out_per_s: float = column("messages delivered per second", 0.0)
    throughput_in_bytes_per_s: float = column("bytes published per second", 0.0)
    throughput_out_bytes_per_s: float = column("bytes delivered per second", 0.0)
    producers: int = column("connected producers", 0)
    consumers: int = column("connected consumers", 0)


@dataclass(frozen=True, slots=True)
class PolicyDocument:
    """A row of the table `policies`: one document as it was found."""

    kind: str = column("isolation, failure_domain, anti_affinity or dynamic_configuration")
    name: str = column("failure domain or namespace that the document is about; empty for cluster-wide ones")
    document: str = column("the document's JSON")
    path: str | None = column("znode that holds it; null for an imported cluster", None)
    znode_version: int | None = column("version of that znode when it was read; null where it did not exist", None)
    znode_czxid: int | None = column("change that created that znode; null where it did not exist", None)


def absent_policy(kind: str, path: str) -> PolicyDocument:
    """The row for a policy that was never set, whose node does not exist."""
    return PolicyDocument(kind, "", "{}", path, None)


SNAPSHOT_TABLES: Mapping[str, type] = {
    "brokers": Broker,
    "bundles": Bundle,
    "topics": Topic,
    "policies": PolicyDocument,
}


@dataclass(frozen=True, slots=True)
class TableFile:
    """The place of a snapshot's table in the lake, its number of rows and the digest of its bytes."""

    path: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class SnapshotManifest:
    """What commits a snapshot: its tables with digests, and what was missing when it was taken."""

    cluster: str
    taken_at: datetime
    load_manager: LoadManager
    tables: Mapping[str, TableFile]
    library_version: str
    zxid_first: int | None = None
    zxid_last: int | None = None
    oldest_report_age_s: float | None = None
    brokers_without_report: tuple[str, ...] = ()
    brokers_with_stale_report: tuple[str, ...] = ()
    notes: tuple[str, ...] = field(default=())
    schema_version: int = SNAPSHOT_SCHEMA_VERSION

    def __post_init__(self) -> None:
        if self.taken_at.tzinfo is None:
            raise InputError("the snapshot's time has no time zone", "give it in UTC, such as 2026-01-31T03:00:00Z")

    @property
    def snapshot_id(self) -> str:
        """The time and a digest of the tables, so that the same content has the same id."""
        content = {name: table.sha256 for name, table in self.tables.items()}
        return snapshot_id(self.cluster, self.taken_at, content)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {
            "snapshot_id": self.snapshot_id,
            "taken_at": format_time(self.taken_at),
            "load_manager": str(self.load_manager),
            "tables": {name: asdict(table) for name, table in self.tables.items()},
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> SnapshotManifest:
        check_schema_version(fields, SNAPSHOT_SCHEMA_VERSION, uri)
        with decoding("a snapshot's manifest", uri):
            values = {name: value for name, value in fields.items() if name != "snapshot_id"}
            for name in ("brokers_without_report", "brokers_with_stale_report", "notes"):
                values[name] = tuple(values[name])
            values["taken_at"] = parse_time(values["taken_at"])
            values["load_manager"] = LoadManager(values["load_manager"])
            values["tables"] = {name: TableFile(**table) for name, table in values["tables"].items()}
            return cls(**values)


def snapshot_id(cluster: str, taken_at: datetime, table_digests: Mapping[str, str]) -> str:
    """The id of a snapshot: its time and a digest of its tables."""
    content = {"cluster": cluster, "taken_at": format_time(taken_at), "tables": dict(table_digests)}
    return f"{taken_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{short_id(digest(content))}"
