"""Clusters out of plain files: what is right becomes a snapshot, what is doubtful is refused by its line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from evenkeel.adapters.lake.snapshots import SnapshotContent, SnapshotStore
from evenkeel.adapters.lake.store import Lake, from_arrow
from evenkeel.adapters.plain_files.importer import import_files
from evenkeel.model.errors import InputError
from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import Broker, Bundle, LoadManager, PolicyDocument

TAKEN_AT = datetime(2026, 11, 16, 3, tzinfo=UTC)
POOL = {
    "namespaces": ["acme/orders"],
    "primary": ["b1"],
    "secondary": [],
    "auto_failover_policy": {"policy_type": "min_available", "parameters": {"min_limit": "1", "usage_threshold": "80"}},
}
BROKERS = """broker_id,failure_domain,cpu_usage,cpu_limit,bandwidth_in_limit,bandwidth_out_limit
b2:8080,zone-2,20,800,0,-1000
b1:8080,,10.5,800,1000000,
"""
BUNDLES = """bundle,owner,msg_rate_in,throughput_out,topics,consumers
acme/orders/0x80000000_0xffffffff,b2:8080,2.5,100,3,1
acme/clicks/0x00000000_0xffffffff,,,,,
acme/orders/0x00000000_0x80000000,b1:8080,1e3,0,1,0
"""
POLICIES: dict[str, Any] = {
    "isolation": {"zebra": POOL, "ant": POOL},
    "failure_domains": {"zone-1": ["b1:8080"]},
    "anti_affinity": {"acme/orders": "money"},
}


@dataclass
class Files:
    """The three files of a cluster; a test spoils one of them."""

    folder: Path
    brokers: str = BROKERS
    bundles: str = BUNDLES
    policies: str = json.dumps(POLICIES)

    def take(self) -> SnapshotContent:
        paths = [self.folder / name for name in ("brokers.csv", "bundles.csv", "policies.json")]
        for path, text in zip(paths, (self.brokers, self.bundles, self.policies), strict=True):
            path.write_text(text)
        return import_files(paths[0], paths[1], paths[2], "lab", TAKEN_AT)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path)


def refusal(files: Files) -> str:
    lake = files.folder / "lake"
    with pytest.raises(InputError) as caught:
        SnapshotStore(Lake(str(lake))).write(files.take())
    assert not lake.exists(), "a refused cluster left something in the lake"
    assert caught.value.remedy
    return caught.value.cause


def test_bundles_are_sorted_and_complete(files: Files) -> None:
    rows = from_arrow(Bundle, files.take().tables["bundles"], "bundles")
    assert [row.bundle for row in rows] == [
        "acme/clicks/0x00000000_0xffffffff",
        "acme/orders/0x00000000_0x80000000",
        "acme/orders/0x80000000_0xffffffff",
    ]
    idle, low, high = rows
    assert (idle.owner, idle.state, idle.topics) == (None, "Init", 0)
    assert (low.tenant, low.namespace, low.range_lower, low.range_upper) == ("acme", "acme/orders", 0, 0x80000000)
    assert (low.owner, low.state, low.msg_rate_in_per_s, low.topics) == ("b1:8080", "Owned", 1000.0, 1)
    assert (high.throughput_out_bytes_per_s, high.throughput_in_bytes_per_s, high.consumers) == (100.0, 0.0, 1)
    assert high.reported_at == TAKEN_AT
    assert (high.version_id, high.znode_version) == (None, None)


def test_brokers_are_active_and_unknown_limits_are_null(files: Files) -> None:
    content = files.take()
    first, second = from_arrow(Broker, content.tables["brokers"], "brokers")
    assert content.load_manager is LoadManager.IMPORTED
    assert (first.broker_id, first.state, first.incarnation, first.load_manager) == (
        "b1:8080",
        "Active",
        None,
        "imported",
    )
    assert (first.failure_domain, second.failure_domain) == ("zone-1", "zone-2")
    assert (first.cpu_usage_percent, first.bandwidth_in_limit_kbps, first.bandwidth_out_limit_kbps) == (10.5, 1e6, None)
    assert (second.bandwidth_in_limit_kbps, second.bandwidth_out_limit_kbps) == (None, None)
    assert second.memory_usage_mib is None


def test_policies_keep_their_order_and_join_both_files(files: Files) -> None:
    rows = from_arrow(PolicyDocument, files.take().tables["policies"], "policies")
    policies = Policies.from_documents(rows)
    assert [p.name for p in policies.isolation] == ["zebra", "ant"]
    assert policies.failure_domains == {"zone-1": ("b1:8080",), "zone-2": ("b2:8080",)}
    assert policies.anti_affinity == {"acme/orders": "money"}
    assert all(row.path is None for row in rows)


def test_order_of_rows_in_the_files_does_not_change_the_snapshot(files: Files) -> None:
    store = SnapshotStore(Lake(str(files.folder / "lake")))
    first = store.write(files.take())
    header, *rows = BUNDLES.splitlines()
    files.bundles = "\n".join([header, *reversed(rows)])
    assert store.write(files.take()).snapshot_id == first.snapshot_id


def test_policies_are_optional(files: Files) -> None:
    files.take()
    content = import_files(files.folder / "brokers.csv", files.folder / "bundles.csv", None, "lab", TAKEN_AT)
    assert [row.name for row in from_arrow(PolicyDocument, content.tables["policies"], "policies")] == ["zone-2"]


LOW = "acme/orders/0x00000000_0x80000000"


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("topics,", "themes,", ["bundles.csv", "unknown column 'themes'"]),
        ("bundle,owner", "bundle,topics", ["bundles.csv", "column 'topics' appears twice"]),
        ("owner,", "producers,", ["bundles.csv", "column 'owner' is missing"]),
        (LOW, "acme/orders/0x80000000_0xffffffff", ["line 4", "acme/orders/0x80000000_0xffffffff appears twice"]),
        (LOW, "acme/orders/0x00000000_0x70000000", ["acme/orders", "a gap from 0x70000000 to 0x80000000"]),
        (LOW, "acme/orders/0x00000000_0x90000000", ["acme/orders", "an overlap at 0x80000000_0xffffffff"]),
        (LOW, "acme/orders/0x10000000_0x80000000", ["acme/orders", "a gap from 0x00000000 to 0x10000000"]),
        ("0x80000000_0xffffffff", "0x80000000_0xfffffffe", ["acme/orders", "a gap from 0xfffffffe to 0xffffffff"]),
        (LOW, "acme/orders/0x80000000_0x00000000", ["acme/orders"]),
        (LOW, "acme/orders/0x00000000_0x8000000A", ["line 4", "0x8000000A"]),
        (LOW, "orders/0x00000000_0x80000000", ["line 4", "orders/0x00000000_0x80000000"]),
        (LOW, "", ["line 4", "bundle is empty"]),
        ("b1:8080", "b9:8080", ["line 4", "b9:8080"]),
        ("2.5", "-2.5", ["line 2", "msg_rate_in is negative (-2.5)"]),
        ("2.5", "nan", ["line 2", "msg_rate_in", "nan"]),
        ("2.5", "inf", ["line 2", "msg_rate_in", "inf"]),
        ("2.5", "fast", ["line 2", "msg_rate_in = 'fast' is not a number"]),
        (",3,1", ",3.5,1", ["line 2", "topics = '3.5' is not a whole number"]),
        (",3,1", ",-3,1", ["line 2", "topics is negative (-3)"]),
        (",3,1", ",3,1,7", ["bundles.csv", "7 cells, the header 6"]),
        (",,,,,", ",,5,,,", ["line 3", "msg_rate_in_per_s but no owner"]),
        (BUNDLES, "", ["bundles.csv", "not a CSV file"]),
        (BUNDLES, "bundle,owner\n", ["bundles.csv", "no rows"]),
    ],
)
def test_bundles_file_is_refused_by_line(files: Files, old: str, new: str, words: list[str]) -> None:
    files.bundles = BUNDLES.replace(old, new, 1)
    cause = refusal(files)
    assert [word for word in words if word not in cause] == [], cause


def test_line_numbers_count_blank_lines(files: Files) -> None:
    files.bundles = BUNDLES.replace("acme/clicks", "\n\nacme/clicks").replace("1e3", "much")
    assert "line 6: msg_rate_in = 'much'" in refusal(files)


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("cpu_usage", "cpu_used", ["brokers.csv", "unknown column 'cpu_used'"]),
        ("b1:8080", "b2:8080", ["line 3", "broker b2:8080 appears twice"]),
        ("b1:8080", "b1", ["line 3", "host:port", "b1"]),
        ("b1:8080", "", ["line 3", "broker_id is empty"]),
        ("10.5", "-10.5", ["line 3", "cpu_usage is negative"]),
        ("10.5", "NaN", ["line 3", "cpu_usage"]),
        ("1000000", "wide", ["line 3", "bandwidth_in_limit = 'wide'"]),
        ("b1:8080,", "b1:8080,zone-2", ["line 3", "b1:8080", "'zone-2'", "'zone-1'"]),
    ],
)
def test_brokers_file_is_refused_by_line(files: Files, old: str, new: str, words: list[str]) -> None:
    files.brokers = BROKERS.replace(old, new, 1)
    cause = refusal(files)
    assert [word for word in words if word not in cause] == [], cause


@pytest.mark.parametrize(
    ("policies", "words"),
    [
        ("{", ["policies.json", "not JSON"]),
        ("[]", ["policies.json", "not an object"]),
        ('{"isolation": {}, "isolation": {}}', ["'isolation' appears twice"]),
        ('{"Isolation": {}}', ["unknown key 'Isolation'"]),
        ('{"isolation": []}', ["isolation is not an object"]),
        ('{"isolation": {"pool": {"namespaces": ["a/b"]}}}', ["'pool'", "primary"]),
        ('{"isolation": {"pool": "b1"}}', ["'pool'"]),
        (json.dumps({"isolation": {"pool": POOL | {"primary": "b1"}}}), ["'pool'", "list of strings"]),
        ('{"failure_domains": {"zone-1": "b1:8080"}}', ["'zone-1'", "list of broker ids"]),
        ('{"failure_domains": {"zone-1": ["b7:8080"]}}', ["'zone-1'", "'b7:8080'"]),
        ('{"failure_domains": {"z1": ["b1:8080"], "z2": ["b1:8080"]}}', ["'b1:8080'", "'z1'", "'z2'"]),
        ('{"anti_affinity": {"orders": "g"}}', ["'orders' is not a namespace"]),
        ('{"anti_affinity": {"acme/orders": 7}}', ["'acme/orders'", "7"]),
    ],
)
def test_policies_file_is_refused_by_name(files: Files, policies: str, words: list[str]) -> None:
    files.policies = policies
    cause = refusal(files)
    assert [word for word in words if word not in cause] == [], cause


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*brokers\.csv"):
        import_files(tmp_path / "brokers.csv", tmp_path / "bundles.csv", None, "lab", TAKEN_AT)


def test_time_without_a_zone_is_refused(files: Files) -> None:
    files.take()
    with pytest.raises(InputError, match="no time zone"):
        import_files(
            files.folder / "brokers.csv", files.folder / "bundles.csv", None, "lab", TAKEN_AT.replace(tzinfo=None)
        )
