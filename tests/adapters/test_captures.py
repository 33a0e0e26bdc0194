"""What three real Pulsar 4.2.4 brokers wrote, read by the reader of live clusters."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pyarrow.compute as pc
import pytest

from evenkeel.adapters.cluster.load_reports import METRICS_PATH, TOPICS_PATH
from evenkeel.adapters.cluster.reader import read_cluster
from evenkeel.adapters.cluster.runtime_configuration import RUNTIME_PATH
from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Capacity, Settings
from evenkeel.model.snapshot import Broker, Bundle, LoadManager, PolicyDocument
from support.znodes import CAPTURED_AT, load_capture

SYSTEM_BUNDLES_WITH_TOPICS = 2


def take(kind: str, settings: Settings | None = None) -> SnapshotContent:
    return read_cluster(load_capture(kind).source, "lab", settings or Settings(), CAPTURED_AT[kind])


def total(content: SnapshotContent, column: str, owner: str) -> float:
    bundles = content.tables["bundles"]
    return float(pc.sum(bundles.filter(pc.equal(bundles["owner"], owner))[column]).as_py())


def test_extensible_capture_has_every_bundle_topic_and_policy() -> None:
    content = take("extensible")
    assert content.load_manager is LoadManager.EXTENSIBLE
    assert {name: table.num_rows for name, table in content.tables.items()} == {
        "brokers": 3,
        "bundles": 5 * 16,
        "topics": 122,
        "policies": 7,
    }
    bundles = from_arrow(Bundle, content.tables["bundles"], "bundles")
    assert sum(b.state == "Owned" for b in bundles) == 40 + SYSTEM_BUNDLES_WITH_TOPICS
    assert all(b.owner is None and b.msg_rate_in_per_s == 0 for b in bundles if b.state == "Init")
    assert content.brokers_without_report == content.brokers_with_stale_report == ()


def test_extensible_capture_sums_topics_by_bundle() -> None:
    content = take("extensible")
    assert total(content, "msg_rate_in_per_s", "127.0.0.1:18081") == pytest.approx(653.863)
    assert total(content, "throughput_out_bytes_per_s", "127.0.0.2:18082") == pytest.approx(81_169.292)
    assert total(content, "topics", "127.0.0.3:18083") == 66
    assert total(content, "consumers", "127.0.0.3:18083") == 22
    bundle = next(
        b
        for b in from_arrow(Bundle, content.tables["bundles"], "bundles")
        if b.bundle == "acme/clicks/0x10000000_0x20000000"
    )
    assert (bundle.owner, bundle.version_id, bundle.znode_version, bundle.topics) == ("127.0.0.3:18083", 15, 14, 2)
    assert bundle.reported_at == CAPTURED_AT["extensible"]


def test_system_topics_that_the_leader_serves_without_a_record_belong_to_it() -> None:
    bundles = from_arrow(Bundle, take("extensible").tables["bundles"], "bundles")
    served = {b.bundle: b.owner for b in bundles if b.namespace == "pulsar/system" and b.topics}
    assert len(served) == SYSTEM_BUNDLES_WITH_TOPICS
    assert set(served.values()) == {"127.0.0.2:18082"}


def test_modular_capture_takes_load_from_registrations_and_ignores_records_of_the_other_manager() -> None:
    content = take("modular")
    assert content.load_manager is LoadManager.MODULAR
    assert content.tables["bundles"].num_rows == 5 * 16
    assert total(content, "msg_rate_in_per_s", "127.0.0.1:18081") == pytest.approx(879.068515, rel=1e-9)
    assert total(content, "throughput_out_bytes_per_s", "127.0.0.3:18083") == pytest.approx(124_185.863256, rel=1e-9)
    bundles = from_arrow(Bundle, content.tables["bundles"], "bundles")
    assert {b.state for b in bundles} == {"Owned", "Init"}
    assert sum(b.state == "Owned" for b in bundles) == 40
    assert all(b.version_id is None for b in bundles)
    assert content.oldest_report_age_s == pytest.approx(4.212)
    assert (content.zxid_first, content.zxid_last) == (3054, 3054)
    refused = ", ".join(f"127.0.0.{number}:1808{number} (connection refused)" for number in (1, 2, 3))
    assert [note for note in content.notes if "topics" in note] == [f"3 brokers gave no list of topics: {refused}"]


def test_modular_brokers_carry_limits_incarnations_and_domains() -> None:
    brokers = from_arrow(Broker, take("modular").tables["brokers"], "brokers")
    assert [b.incarnation for b in brokers] == [2589, 2595, 2576]
    assert [b.failure_domain for b in brokers] == ["zone-1", "zone-2", "zone-3"]
    assert {(b.state, b.version, b.cpu_limit_percent, b.memory_limit_mib) for b in brokers} == {
        ("Active", "4.2.4", 200.0, 512.0)
    }
    assert all(b.takes_persistent_topics for b in brokers)


def test_percentages_become_usages_of_the_capacity_in_the_settings() -> None:
    settings = Settings(capacity=(Capacity(r"127\.0\.0\.1", cores=8, nic_gbps=25),))
    content = take("extensible", settings)
    first, second, _ = from_arrow(Broker, content.tables["brokers"], "brokers")
    assert first.cpu_limit_percent == 800.0
    assert first.cpu_usage_percent == pytest.approx(29.115776 * 8)
    assert first.bandwidth_in_limit_kbps == 25_000_000.0
    assert (second.cpu_limit_percent, second.bandwidth_out_limit_kbps) == (100.0, 10_000_000.0)
    assert any("no capacity for brokers 127.0.0.2:18082, 127.0.0.3:18083" in note for note in content.notes)


def test_policies_are_kept_as_found_with_path_and_version() -> None:
    rows = from_arrow(PolicyDocument, take("extensible").tables["policies"], "policies")
    by_kind = {(row.kind, row.name): row for row in rows}
    isolation = by_kind["isolation", ""]
    assert (isolation.path, isolation.znode_version) == ("/admin/clusters/lab/namespaceIsolationPolicies", 4)
    group = by_kind["anti_affinity", "globex/audit"]
    # Whoever set the group sent its name with quotes, and Pulsar kept them.
    assert (json.loads(group.document), group.path) == ('"money"', "/admin/local-policies/globex/audit")
    assert by_kind["dynamic_configuration", ""].path == "/admin/configuration"
    policies = Policies.from_documents(rows)
    assert policies.failure_domains["zone-2"] == ("127.0.0.2:18082",)
    assert [p.name for p in policies.isolation] == ["clicks-pool"]


def test_isolation_policies_keep_the_order_in_which_pulsar_looks_at_them() -> None:
    cluster = load_capture("extensible")
    path = "/admin/clusters/lab/namespaceIsolationPolicies"
    policy = cluster.tree.document(path)["clicks-pool"]
    cluster.tree.put(path, {"zebra": policy, "ant": policy})
    content = read_cluster(cluster.source, "lab", Settings(), CAPTURED_AT["extensible"])
    policies = Policies.from_documents(from_arrow(PolicyDocument, content.tables["policies"], "policies"))
    assert [p.name for p in policies.isolation] == ["zebra", "ant"]


def test_broker_that_does_not_answer_is_named_and_its_bundles_stay() -> None:
    cluster = load_capture("extensible")
    for path in (TOPICS_PATH, METRICS_PATH, RUNTIME_PATH):
        del cluster.http.answers[f"http://127.0.0.3:18083{path}"]
    content = read_cluster(cluster.source, "lab", Settings(), CAPTURED_AT["extensible"])
    assert content.brokers_without_report == ("127.0.0.3:18083",)
    assert content.tables["bundles"].num_rows == 5 * 16
    assert total(content, "topics", "127.0.0.3:18083") == 0
    brokers = from_arrow(Broker, content.tables["brokers"], "brokers")
    assert [b.state for b in brokers] == ["Active", "Active", "Initial"]
    assert any("127.0.0.3:18083 gave no load report (connection refused)" in note for note in content.notes)


def test_old_report_makes_a_broker_inactive_and_is_listed() -> None:
    late = CAPTURED_AT["modular"] + timedelta(hours=1)
    content = read_cluster(load_capture("modular").source, "lab", Settings(), late)
    assert len(content.brokers_with_stale_report) == 3
    assert {b.state for b in from_arrow(Broker, content.tables["brokers"], "brokers")} == {"Inactive"}
    assert content.oldest_report_age_s == pytest.approx(3604.212)


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_capture_becomes_a_snapshot_in_the_lake_twice_with_the_same_id(kind: str, tmp_path: Path) -> None:
    store = SnapshotStore(Lake(str(tmp_path)))
    first, second = store.write(take(kind)), store.write(take(kind))
    assert first.snapshot_id == second.snapshot_id
    assert store.read_table(store.load("lab"), "bundles").num_rows == 5 * 16
