"""Clusters of other versions: what Pulsar 3.0 writes is read, unknown versions are told, impossible ones refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from evenkeel.adapters.cluster.load_reports import TOPICS_PATH
from evenkeel.adapters.cluster.reader import read_cluster
from evenkeel.adapters.lake.snapshots import SnapshotContent
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings
from support.znodes import SMALL_TAKEN_AT, RecordedCluster, report_bundle, small_extensible, small_modular, topic_stats

WHOLE = "0x00000000_0xffffffff"
V1 = ("acme/lab/clicks", "acme/lab/views")
OWNER = {"nativeUrl": "pulsar://b1:6650", "httpUrl": "http://b1:8080", "disabled": False}


def take(cluster: RecordedCluster) -> SnapshotContent:
    return read_cluster(cluster.source, "lab", Settings(), SMALL_TAKEN_AT)


def change_brokers(cluster: RecordedCluster, **fields: Any) -> RecordedCluster:
    for path in [path for path in cluster.tree.nodes if path.startswith("/loadbalance/brokers/")]:
        node = cluster.tree.nodes[path]
        document = cluster.tree.document(path) | fields
        cluster.tree.put(path, document, czxid=node.czxid, mzxid=node.mzxid)
    return cluster


def add_v1_namespaces(cluster: RecordedCluster) -> None:
    """As on 3.0: the parent under local-policies is an empty node."""
    cluster.tree.put("/admin/local-policies/acme/lab", None)
    for namespace in V1:
        bundles = {"boundaries": ["0x00000000", "0xffffffff"], "numBundles": 1}
        cluster.tree.put(f"/admin/local-policies/{namespace}", {"bundles": bundles})


def add_modular_traffic(cluster: RecordedCluster) -> None:
    for parent in ("acme/lab", "pulsar/lab"):
        cluster.tree.put(f"/namespace/{parent}", None)
    for namespace in (*V1, "pulsar/lab/b1:8080"):
        cluster.tree.put(f"/namespace/{namespace}", None)
        cluster.tree.put(f"/namespace/{namespace}/{WHOLE}", OWNER)
        report_bundle(cluster, "b1", f"{namespace}/{WHOLE}")


def add_extensible_traffic(cluster: RecordedCluster) -> None:
    record = {"state": "Owned", "dstBroker": "b1:8080", "force": False, "timestamp": 1, "versionId": 1}
    for namespace in V1:
        cluster.tree.put(f"/service_unit_state/{namespace}/{WHOLE}", record)
        topics = {"persistent": {f"persistent://{namespace}/t": topic_stats()}}
        cluster.http.answers[f"http://b1:8080{TOPICS_PATH}"][namespace] = {WHOLE: topics}


@pytest.mark.parametrize(
    ("cluster", "add_traffic"),
    [(small_modular, add_modular_traffic), (small_extensible, add_extensible_traffic)],
    ids=["modular", "extensible"],
)
def test_v1_namespaces_are_left_alone_and_counted_in_one_note(
    cluster: Callable[[], RecordedCluster], add_traffic: Callable[[RecordedCluster], None]
) -> None:
    made = cluster()
    before = take(made)
    add_v1_namespaces(made)
    add_traffic(made)
    content = take(made)
    assert content.tables["bundles"] == before.tables["bundles"]
    (note,) = set(content.notes) - set(before.notes)
    assert note == (
        "2 V1 namespaces (tenant/cluster/namespace), such as acme/lab/clicks, are left alone: plans move bundles of "
        "V2 namespaces only"
    )


def test_parent_that_v1_namespaces_left_behind_is_no_fault() -> None:
    cluster = small_modular()
    before = take(cluster)
    cluster.tree.put("/admin/local-policies/acme/lab", None)
    assert take(cluster).notes == before.notes


@pytest.mark.parametrize("version", ["3.0.7", "4.0.7", "4.2.4", "4.2.9"])
def test_tested_lines_need_no_note(version: str) -> None:
    notes = take(change_brokers(small_modular(), brokerVersion=version)).notes
    assert not [note for note in notes if "run" in note and version in note]


@pytest.mark.parametrize("version", ["5.1.0", "4.1.3", "3.3.9", "4.3.0-SNAPSHOT"])
def test_version_that_was_not_tested_is_told_once(version: str) -> None:
    notes = take(change_brokers(small_modular(), brokerVersion=version)).notes
    told = [note for note in notes if version in note]
    assert len(told) == 1
    assert told[0].startswith(f"broker b1:8080 and 1 more run Pulsar {version}; tested are 3.0.7, 4.0.7 and 4.2.4")


def test_version_that_nobody_can_read_is_told() -> None:
    notes = take(change_brokers(small_modular(), brokerVersion="nightly")).notes
    assert any("run Pulsar nightly; tested are" in note for note in notes)


@pytest.mark.parametrize("version", ["2.11.4", "2.10.0", "1.22.0"])
def test_version_below_3_0_is_refused_by_name(version: str) -> None:
    with pytest.raises(InputError, match=rf"broker b1:8080 runs Pulsar {version}, .*: upgrade to 3\.0"):
        take(change_brokers(small_modular(), brokerVersion=version))


def test_metadata_store_view_before_4_0_is_refused() -> None:
    sentence = r"broker b1:8080 runs Pulsar 3\.0\.7, which has no metadata-store table view"
    with pytest.raises(InputError, match=sentence):
        take(change_brokers(small_extensible(), brokerVersion="3.0.7"))


def test_unknown_fields_are_ignored() -> None:
    cluster = small_modular()
    before = take(cluster)
    change_brokers(cluster, futureField={"a": [1]}, brokerId="b9:1")
    assert take(cluster).tables["bundles"] == before.tables["bundles"]
