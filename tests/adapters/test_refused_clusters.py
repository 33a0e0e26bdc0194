"""Clusters that contradict themselves or speak nonsense: refused by name, and nothing reaches the lake."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from evenkeel.adapters.cluster.kind import EXTENSIBLE_CLASS, MODULAR_CLASS
from evenkeel.adapters.cluster.load_reports import METRICS_PATH, TOPICS_PATH
from evenkeel.adapters.cluster.reader import REREAD_PAUSES_S, read_cluster
from evenkeel.adapters.cluster.runtime_configuration import RUNTIME_PATH
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import EvenkeelError, InputError, UnavailableError
from evenkeel.model.settings import Settings
from support.znodes import (
    RANGES,
    SMALL_TAKEN_AT,
    RecordedCluster,
    own,
    report_bundle,
    report_topic,
    set_boundaries,
    small_extensible,
    small_modular,
    topic_stats,
)

LOW, HIGH = RANGES
B1 = "/loadbalance/brokers/b1:8080"
B1_TOPICS = f"http://b1:8080{TOPICS_PATH}"
B1_METRICS = f"http://b1:8080{METRICS_PATH}"

Break = Callable[[RecordedCluster], Any]


def change(cluster: RecordedCluster, path: str, **fields: Any) -> None:
    node = cluster.tree.nodes[path]
    cluster.tree.put(path, cluster.tree.document(path) | fields, czxid=node.czxid, mzxid=node.mzxid)


def change_both(cluster: RecordedCluster, **fields: Any) -> None:
    for number in (1, 2):
        change(cluster, f"/loadbalance/brokers/b{number}:8080", **fields)


def put_domains(cluster: RecordedCluster, **domains: list[str]) -> None:
    for name, brokers in domains.items():
        cluster.tree.put(f"/admin/clusters/lab/failureDomain/{name}", {"brokers": brokers})


def drop(cluster: RecordedCluster, prefix: str) -> None:
    for path in [path for path in cluster.tree.nodes if path.startswith(prefix)]:
        del cluster.tree.nodes[path]


def snapshot(cluster: RecordedCluster, lake: Path, taken_at: datetime = SMALL_TAKEN_AT) -> EvenkeelError:
    with pytest.raises(EvenkeelError) as caught:
        SnapshotStore(Lake(str(lake))).write(read_cluster(cluster.source, "lab", Settings(), taken_at))
    assert not list(lake.iterdir()), "a refused cluster left something in the lake"
    assert caught.value.remedy
    return caught.value


EXTENSIBLE_CASES: dict[str, tuple[Break, list[str]]] = {
    "no brokers": (lambda c: drop(c, "/loadbalance"), ["no broker is registered under /loadbalance/brokers"]),
    "unknown cluster": (
        lambda c: drop(c, "/admin/clusters"),
        ["no clusters under /admin/clusters"],
    ),
    "misspelt cluster": (
        lambda c: (drop(c, "/admin/clusters/lab"), c.tree.put("/admin/clusters/lap", {})),
        ["no cluster 'lab' under /admin/clusters"],
    ),
    "mixed managers": (
        lambda c: change(c, B1, loadManagerClassName=MODULAR_CLASS),
        ["b1:8080", MODULAR_CLASS, "b2:8080", EXTENSIBLE_CLASS],
    ),
    "unknown manager": (
        lambda c: change_both(c, loadManagerClassName="my.Manager"),
        ["b1:8080", "my.Manager"],
    ),
    "mixed views": (
        lambda c: c.http.answers.update({f"http://b2:8080{RUNTIME_PATH}": {"clusterName": "lab"}}),
        ["service-unit table view is mixed", "b1:8080", "b2:8080", "ServiceUnitStateTableViewImpl"],
    ),
    "unknown view": (
        lambda c: c.http.answers.update(
            {
                f"http://b{n}:8080{RUNTIME_PATH}": {
                    "clusterName": "lab",
                    "loadManagerServiceUnitStateTableViewClassName": "my.View",
                }
                for n in (1, 2)
            }
        ),
        ["b1:8080", "my.View"],
    ),
    "other cluster's broker": (
        lambda c: c.http.answers[f"http://b2:8080{RUNTIME_PATH}"].update(clusterName="prod"),
        ["b2:8080", "'prod'", "'lab'"],
    ),
    "registration is not JSON": (lambda c: c.tree.put(B1, b"{"), [B1, "not JSON"]),
    "registration without an address": (lambda c: change(c, B1, webServiceUrl=None), [B1, "webServiceUrl"]),
    "registration with another protocol": (
        lambda c: change(c, B1, webServiceUrl="file:///etc/passwd"),
        [B1, "file:///etc/passwd"],
    ),
    "registration that neither serves nor does not": (
        lambda c: change(c, B1, persistentTopicsEnabled="yes"),
        [B1, "persistentTopicsEnabled = 'yes' is neither true nor false"],
    ),
    "boundaries with a gap": (
        lambda c: set_boundaries(c, "0x00000000", "0x80000000"),
        ["acme/orders", "a gap from 0x80000000 to 0xffffffff"],
    ),
    "boundaries that begin late": (
        lambda c: set_boundaries(c, "0x10000000", "0xffffffff"),
        ["acme/orders", "a gap from 0x00000000 to 0x10000000"],
    ),
    "boundaries that overlap": (
        lambda c: set_boundaries(c, "0x00000000", "0x80000000", "0x70000000", "0xffffffff"),
        ["acme/orders", "an overlap at 0x80000000_0x70000000"],
    ),
    "no boundaries": (
        lambda c: c.tree.put("/admin/local-policies/acme/orders", {}),
        ["acme/orders", "a gap from 0x00000000"],
    ),
    "boundary that is no number": (
        lambda c: set_boundaries(c, "0x00000000", "half", "0xffffffff"),
        ["/admin/local-policies/acme/orders", "'half'"],
    ),
    "record is not JSON": (
        lambda c: c.tree.put(f"/service_unit_state/acme/orders/{LOW}", b"Owned"),
        [f"/service_unit_state/acme/orders/{LOW}"],
    ),
    "record with an unknown state": (
        lambda c: own(c, LOW, "b1:8080", state="Borrowed"),
        [f"/service_unit_state/acme/orders/{LOW}", "Borrowed"],
    ),
    "record in upper case": (
        lambda c: own(c, "0x80000000_0xFFFFFFFF", "b1:8080"),
        ["/service_unit_state/acme/orders", "0x80000000_0xFFFFFFFF"],
    ),
    "owned leftover of a split": (
        lambda c: own(c, "0x00000000_0x40000000", "b2:8080"),
        ["acme/orders/0x00000000_0x40000000", "b2:8080", LOW, "b1:8080"],
    ),
    "owner in a namespace without boundaries": (
        lambda c: drop(c, "/admin/local-policies"),
        ["namespace acme/orders has no /admin/local-policies/acme/orders", "b1:8080"],
    ),
    "load without an owner": (
        lambda c: drop(c, f"/service_unit_state/acme/orders/{LOW}"),
        [f"acme/orders/{LOW}", "no owner", "b1:8080"],
    ),
    "load of a bundle long free": (
        lambda c: own(c, LOW, "", state="Free", sourceBroker="b1:8080"),
        [f"acme/orders/{LOW}", "Free", "b1:8080"],
    ),
    "two brokers report a bundle": (
        lambda c: report_topic(c, "b2", LOW, "persistent://acme/orders/lower"),
        [f"acme/orders/{LOW}", "Owned by b1:8080", "b2:8080 reports"],
    ),
    "negative rate": (
        lambda c: report_topic(c, "b1", LOW, "persistent://acme/orders/lower", msgRateIn=-1.0),
        ["b1:8080", "persistent://acme/orders/lower", "msgRateIn", "negative"],
    ),
    "rate that is not a number": (
        lambda c: c.http.answers.update({B1_TOPICS: _topics(b'"fast"')}),
        ["b1:8080", "msgThroughputOut", "'fast'"],
    ),
    "rate that is NaN": (
        lambda c: c.http.answers.update({B1_TOPICS: _topics(b"NaN")}),
        ["b1:8080", "msgThroughputOut", "nan"],
    ),
    "rate that is infinite": (
        lambda c: c.http.answers.update({B1_TOPICS: _topics(b"1e999")}),
        ["b1:8080", "msgThroughputOut", "inf"],
    ),
    "half a producer": (
        lambda c: report_topic(c, "b1", LOW, "persistent://acme/orders/lower", producerCount=0.5),
        ["b1:8080", "producerCount", "0.5"],
    ),
    "topics are a list": (lambda c: c.http.answers.update({B1_TOPICS: []}), ["b1:8080", TOPICS_PATH]),
    "topics are cut off": (lambda c: c.http.answers.update({B1_TOPICS: b'{"acme/'}), ["b1:8080", "not JSON"]),
    "metrics are an object": (lambda c: c.http.answers.update({B1_METRICS: {}}), ["b1:8080", METRICS_PATH]),
    "usage is a text": (
        lambda c: c.http.answers[B1_METRICS][0]["metrics"].update(brk_lb_cpu_usage="hot"),
        ["b1:8080", "brk_lb_cpu_usage", "'hot'"],
    ),
    "isolation is not JSON": (
        lambda c: c.tree.put("/admin/clusters/lab/namespaceIsolationPolicies", b"{]"),
        ["/admin/clusters/lab/namespaceIsolationPolicies", "not JSON"],
    ),
    "isolation without primaries": (
        lambda c: c.tree.put("/admin/clusters/lab/namespaceIsolationPolicies", {"pool": {"namespaces": []}}),
        ["'pool'", "primary"],
    ),
    "failure domain without brokers": (
        lambda c: c.tree.put("/admin/clusters/lab/failureDomain/zone-1", {}),
        ["zone-1", "brokers"],
    ),
    "broker in two failure domains": (
        lambda c: put_domains(c, z1=["b1:8080"], z2=["b1:8080"]),
        ["b1:8080", "z1", "z2"],
    ),
}

MODULAR_CASES: dict[str, tuple[Break, list[str]]] = {
    "other cluster's broker": (
        lambda c: c.http.answers[f"http://b2:8080{RUNTIME_PATH}"].update(clusterName="prod"),
        ["b2:8080", "'prod'", "'lab'"],
    ),
    "no broker names its cluster": (
        lambda c: c.http.answers.update({f"http://b{n}:8080{RUNTIME_PATH}": {} for n in (1, 2)}),
        ["b1:8080 does not say which cluster it belongs to"],
    ),
    "owner node is not JSON": (
        lambda c: c.tree.put(f"/namespace/acme/orders/{LOW}", b"b1"),
        [f"/namespace/acme/orders/{LOW}", "not JSON"],
    ),
    "owner node names nobody": (
        lambda c: c.tree.put(f"/namespace/acme/orders/{LOW}", {"disabled": False}),
        [f"/namespace/acme/orders/{LOW}", "names no owner"],
    ),
    "two brokers report a bundle": (
        lambda c: report_bundle(c, "b2", f"acme/orders/{LOW}"),
        [f"acme/orders/{LOW}", "Owned by b1:8080", "b2:8080 reports"],
    ),
    "load without an owner": (
        lambda c: drop(c, f"/namespace/acme/orders/{LOW}"),
        [f"acme/orders/{LOW}", "no owner", "b1:8080"],
    ),
    "load of a range that is not there": (
        lambda c: report_bundle(c, "b1", "acme/orders/0x00000000_0x40000000"),
        ["b1:8080", "acme/orders/0x00000000_0x40000000", "boundaries"],
    ),
    "load of a namespace that is not there": (
        lambda c: report_bundle(c, "b1", "acme/gone/0x00000000_0x40000000"),
        ["b1:8080", "acme/gone"],
    ),
    "malformed bundle": (
        lambda c: report_bundle(c, "b1", "acme/orders/everything"),
        [B1, "lastStats", "'everything'"],
    ),
    "negative throughput": (
        lambda c: report_bundle(c, "b1", f"acme/orders/{LOW}", msgThroughputIn=-0.5),
        [B1, LOW, "msgThroughputIn", "negative"],
    ),
    "usage missing": (lambda c: change(c, B1, cpu={"limit": 100.0}), [B1, "cpu", "usage"]),
    "time in the far future": (lambda c: change(c, B1, lastUpdate=1e15), [B1, "lastUpdate"]),
}


def _topics(throughput: bytes) -> bytes:
    stats = str(topic_stats(msgThroughputOut=0)).replace("'", '"').encode()
    stats = stats.replace(b'"msgThroughputOut": 0', b'"msgThroughputOut": ' + throughput)
    return b'{"acme/orders": {"%s": {"persistent": {"persistent://acme/orders/lower": %s}}}}' % (LOW.encode(), stats)


@pytest.mark.parametrize("case", EXTENSIBLE_CASES)
def test_extensible_cluster_is_refused_by_name(case: str, tmp_path: Path) -> None:
    cluster = small_extensible()
    spoil, words = EXTENSIBLE_CASES[case]
    spoil(cluster)
    error = snapshot(cluster, tmp_path)
    assert isinstance(error, InputError)
    assert [word for word in words if word not in error.cause] == [], error.cause


@pytest.mark.parametrize("case", MODULAR_CASES)
def test_modular_cluster_is_refused_by_name(case: str, tmp_path: Path) -> None:
    cluster = small_modular()
    spoil, words = MODULAR_CASES[case]
    spoil(cluster)
    error = snapshot(cluster, tmp_path)
    assert isinstance(error, InputError)
    assert [word for word in words if word not in error.cause] == [], error.cause


def test_contradictions_are_looked_at_again_before_they_are_refused(tmp_path: Path) -> None:
    cluster = small_extensible()
    report_topic(cluster, "b2", LOW, "persistent://acme/orders/lower")
    snapshot(cluster, tmp_path)
    assert tuple(cluster.pauses_s) == REREAD_PAUSES_S


@pytest.mark.parametrize("small", [small_extensible, small_modular])
def test_cluster_of_which_no_broker_answers_is_unavailable(
    small: Callable[[], RecordedCluster], tmp_path: Path
) -> None:
    cluster = small()
    cluster.http.answers.clear()
    error = snapshot(cluster, tmp_path)
    assert isinstance(error, UnavailableError)
    assert "no broker answered" in error.cause
    assert "connection refused" in error.cause


def test_time_without_a_zone_is_refused(tmp_path: Path) -> None:
    error = snapshot(small_extensible(), tmp_path, SMALL_TAKEN_AT.replace(tzinfo=None))
    assert "no time zone" in error.cause
