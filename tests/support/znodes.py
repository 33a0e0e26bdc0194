"""A cluster out of plain values, so that recordings and broken documents go through the reader of live clusters."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evenkeel.adapters.brokers.broker_http import HttpAnswer
from evenkeel.adapters.cluster.kind import EXTENSIBLE_CLASS, MODULAR_CLASS, VIEWS
from evenkeel.adapters.cluster.load_reports import METRICS_PATH, TOPICS_PATH
from evenkeel.adapters.cluster.runtime_configuration import RUNTIME_PATH
from evenkeel.adapters.cluster.source import ClusterSource
from evenkeel.adapters.zookeeper.nodes import Children, ZNode
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.model.snapshot import LoadManager

CAPTURES = Path(__file__).parent.parent / "data" / "captures"
PULSAR_VERSION = "4.2.4"
METADATA_STORE_VIEW = next(name for name, kind in VIEWS.items() if kind is LoadManager.EXTENSIBLE)
# Just after the last node of the recordings was written, so that their reports are fresh.
CAPTURED_AT = {
    "extensible": datetime.fromtimestamp(1_794_789_170, UTC),
    "modular": datetime.fromtimestamp(1_794_789_360, UTC),
}
OLD_MS = 1_794_000_000_000


@dataclass
class RecordedTree:
    """Nodes in memory; tests change them at will, also between two reads."""

    nodes: dict[str, ZNode] = field(default_factory=dict)
    pzxids: dict[str, int] = field(default_factory=dict)
    before_read: Callable[[Sequence[str]], None] = lambda paths: None

    def put(self, path: str, value: Any, **stat: int) -> None:
        """Write a node; bytes are taken as they are, anything else as JSON, None as an empty node."""
        data = value if isinstance(value, bytes) else b"" if value is None else json.dumps(value).encode()
        fields = {"version": 0, "czxid": 1, "mzxid": 1, "mtime_ms": OLD_MS, "ephemeral_owner": 0} | stat
        self.nodes[path] = ZNode(path, data, **fields)

    def document(self, path: str) -> Any:
        return json.loads(self.nodes[path].data)

    def children(self, paths: Sequence[str]) -> list[Children | None]:
        self.before_read(paths)
        return [self._children(path) for path in paths]

    def get(self, paths: Sequence[str]) -> list[ZNode | None]:
        self.before_read(paths)
        return [self.nodes.get(path) for path in paths]

    @property
    def last_zxid(self) -> int:
        return max(node.mzxid for node in self.nodes.values())

    def _children(self, path: str) -> Children | None:
        below = {name[len(path) + 1 :].split("/")[0] for name in self.nodes if name.startswith(f"{path}/")}
        if not below and path not in self.nodes:
            return None
        return Children(tuple(sorted(below)), self.pzxids.get(path, 1))


@dataclass
class RecordedHttp:
    """Answers by URL; whatever is not recorded is a broker that does not answer."""

    answers: dict[str, Any] = field(default_factory=dict)

    def fetch(self, urls: Sequence[str]) -> list[HttpAnswer]:
        return [self._answer(url) for url in urls]

    def _answer(self, url: str) -> HttpAnswer:
        if url not in self.answers:
            return HttpAnswer(url, None, "connection refused")
        value = self.answers[url]
        return HttpAnswer(url, value if isinstance(value, bytes) else json.dumps(value).encode(), status=200)


@dataclass
class RecordedCluster:
    """Both halves, and the source that a reader takes."""

    tree: RecordedTree = field(default_factory=RecordedTree)
    http: RecordedHttp = field(default_factory=RecordedHttp)
    pauses_s: list[float] = field(default_factory=list)

    @property
    def source(self) -> ClusterSource:
        return ClusterSource(
            self.tree, self.tree, self.http, PulsarPaths(), EvenkeelPaths("/evenkeel/lab"), sleep=self.pauses_s.append
        )


def load_capture(kind: str) -> RecordedCluster:
    """What three Pulsar 4.2.4 brokers wrote and answered; of the metrics only the first broker's were recorded."""
    cluster = RecordedCluster()
    for path, node in json.loads((CAPTURES / f"pulsar-{PULSAR_VERSION}-{kind}.znodes.json").read_text()).items():
        stat = node["stat"]
        cluster.tree.put(
            path,
            node["data"],
            version=stat["version"],
            czxid=stat["czxid"],
            mzxid=stat["mzxid"],
            mtime_ms=stat["mtime"],
            ephemeral_owner=int(stat["ephemeral"]),
        )
    urls = [f"http://127.0.0.{number}:1808{number}" for number in (1, 2, 3)]
    cluster.http.answers |= {url + RUNTIME_PATH: {"clusterName": "lab"} for url in urls}
    if kind == "extensible":
        prefix = CAPTURES / f"pulsar-{PULSAR_VERSION}-extensible"
        metrics = json.loads(prefix.with_name(f"{prefix.name}.broker1.metrics.json").read_text())
        for number, url in enumerate(urls, start=1):
            topics = json.loads(prefix.with_name(f"{prefix.name}.broker{number}.topics.json").read_text())
            cluster.http.answers[url + TOPICS_PATH] = topics
            cluster.http.answers[url + METRICS_PATH] = metrics
            cluster.http.answers[url + RUNTIME_PATH]["loadManagerServiceUnitStateTableViewClassName"] = (
                METADATA_STORE_VIEW
            )
    return cluster


def small_extensible(brokers: int = 2) -> RecordedCluster:
    """Namespace acme/orders in two bundles: b1 owns the lower, b2 the upper, one topic each.

    b1  0x00000000_0x80000000  persistent://acme/orders/lower  10 msg/s
    b2  0x80000000_0xffffffff  persistent://acme/orders/west   10 msg/s
    """
    cluster = _small(brokers, EXTENSIBLE_CLASS)
    for number in range(1, brokers + 1):
        url = f"http://b{number}:8080"
        usages = dict.fromkeys(("cpu", "memory", "directMemory", "bandwidth_in", "bandwidth_out"), 50.0)
        metrics = {f"brk_lb_{name}_usage": value for name, value in usages.items()}
        cluster.http.answers |= {
            url + RUNTIME_PATH: {
                "clusterName": "lab",
                "loadManagerServiceUnitStateTableViewClassName": METADATA_STORE_VIEW,
            },
            url + METRICS_PATH: [{"metrics": metrics, "dimensions": {"metric": "loadBalancing"}}],
            url + TOPICS_PATH: {},
        }
    for number, (bundle_range, topic) in enumerate(zip(RANGES, ("lower", "west"), strict=True), start=1):
        own(cluster, bundle_range, f"b{number}:8080")
        report_topic(cluster, f"b{number}", bundle_range, f"persistent://acme/orders/{topic}")
    return cluster


def small_modular(brokers: int = 2) -> RecordedCluster:
    """The same cluster under the modular load manager."""
    cluster = _small(brokers, MODULAR_CLASS)
    for number in range(1, brokers + 1):
        path = f"/loadbalance/brokers/b{number}:8080"
        names = ("cpu", "memory", "directMemory", "bandwidthIn", "bandwidthOut")
        resources = {name: {"usage": 50.0, "limit": 100.0} for name in names}
        report = cluster.tree.document(path) | resources | {"lastUpdate": SMALL_TAKEN_MS - 5_000, "lastStats": {}}
        cluster.tree.put(path, report, czxid=10 + number, mzxid=50)
        cluster.http.answers[f"http://b{number}:8080{RUNTIME_PATH}"] = {"clusterName": "lab"}
    for number, bundle_range in enumerate(RANGES, start=1):
        cluster.tree.put(
            f"/namespace/acme/orders/{bundle_range}",
            {"nativeUrl": f"pulsar://b{number}:6650", "httpUrl": f"http://b{number}:8080", "disabled": False},
            mzxid=40,
        )
        report_bundle(cluster, f"b{number}", f"acme/orders/{bundle_range}")
    return cluster


RANGES = ("0x00000000_0x80000000", "0x80000000_0xffffffff")
SMALL_TAKEN_AT = datetime(2026, 11, 16, 3, tzinfo=UTC)
SMALL_TAKEN_MS = int(SMALL_TAKEN_AT.timestamp() * 1000)


def own(cluster: RecordedCluster, bundle_range: str, broker: str, **changes: Any) -> None:
    """Write a service-unit record of acme/orders; `mtime_ms` and `mzxid` go into the node's stat."""
    stat = {name: changes.pop(name) for name in ("mtime_ms", "mzxid", "version") if name in changes}
    record = {"state": "Owned", "dstBroker": broker, "force": False, "timestamp": OLD_MS, "versionId": 3} | changes
    cluster.tree.put(f"/service_unit_state/acme/orders/{bundle_range}", record, **stat)


def topic_stats(**changes: Any) -> dict[str, Any]:
    """One topic with a producer and two consumers."""
    return {
        "publishers": [{}],
        "subscriptions": {"s": {"consumers": [{}, {}]}},
        "producerCount": 1,
        "msgRateIn": 10.0,
        "msgRateOut": 20.0,
        "msgThroughputIn": 1000.0,
        "msgThroughputOut": 2000.0,
    } | changes


def report_topic(cluster: RecordedCluster, host: str, bundle_range: str, topic: str, **changes: Any) -> None:
    """Let a broker list a topic of acme/orders in its statistics."""
    document = cluster.http.answers[f"http://{host}:8080{TOPICS_PATH}"]
    domain = document.setdefault("acme/orders", {}).setdefault(bundle_range, {}).setdefault("persistent", {})
    domain[topic] = topic_stats(**changes)


def report_bundle(cluster: RecordedCluster, host: str, bundle: str, **changes: Any) -> None:
    """Let a modular broker list a bundle in its load report."""
    path = f"/loadbalance/brokers/{host}:8080"
    stats = {"msgRateIn": 10.0, "msgRateOut": 20.0, "msgThroughputIn": 1000.0, "msgThroughputOut": 2000.0}
    stats |= {"topics": 1, "producerCount": 1, "consumerCount": 2} | changes
    node = cluster.tree.nodes[path]
    report = cluster.tree.document(path)
    report["lastStats"][bundle] = stats
    cluster.tree.put(path, report, czxid=node.czxid, mzxid=node.mzxid)


def set_boundaries(cluster: RecordedCluster, *points: str, **stat: int) -> None:
    """Write the boundaries of acme/orders."""
    bundles = {"boundaries": list(points), "numBundles": len(points) - 1}
    cluster.tree.put("/admin/local-policies/acme/orders", {"bundles": bundles, "migrated": False}, **stat)


def _small(brokers: int, load_manager_class: str) -> RecordedCluster:
    cluster = RecordedCluster()
    cluster.tree.put("/admin/clusters/lab", {})
    for number in range(1, brokers + 1):
        cluster.tree.put(
            f"/loadbalance/brokers/b{number}:8080",
            {
                "webServiceUrl": f"http://b{number}:8080",
                "pulsarServiceUrl": f"pulsar://b{number}:6650",
                "loadManagerClassName": load_manager_class,
                "brokerVersion": PULSAR_VERSION,
            },
            czxid=10 + number,
        )
    set_boundaries(cluster, "0x00000000", "0x80000000", "0xffffffff")
    return cluster
