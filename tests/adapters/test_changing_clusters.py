"""Clusters that move while they are read: what only looks like a contradiction is no false alarm."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from evenkeel.adapters.cluster.load_reports import METRICS_PATH, TOPICS_PATH
from evenkeel.adapters.cluster.reader import read_cluster
from evenkeel.adapters.cluster.runtime_configuration import RUNTIME_PATH
from evenkeel.adapters.lake.snapshots import SnapshotContent
from evenkeel.adapters.lake.store import from_arrow
from evenkeel.model.errors import RefusedError
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, LoadManager, Topic
from support.znodes import (
    RANGES,
    SMALL_TAKEN_AT,
    SMALL_TAKEN_MS,
    RecordedCluster,
    own,
    report_bundle,
    report_topic,
    set_boundaries,
    small_extensible,
    small_modular,
)

LOW, HIGH = RANGES
JUST_NOW_MS = SMALL_TAKEN_MS - 20_000
LOW_TOPIC = "persistent://acme/orders/lower"


def take(cluster: RecordedCluster) -> SnapshotContent:
    return read_cluster(cluster.source, "lab", Settings(), SMALL_TAKEN_AT)


def bundles_of(content: SnapshotContent) -> dict[str, Bundle]:
    rows = from_arrow(Bundle, content.tables["bundles"], "bundles")
    return {row.bundle.removeprefix("acme/orders/"): row for row in rows}


def brokers_of(content: SnapshotContent) -> dict[str, Broker]:
    return {row.broker_id: row for row in from_arrow(Broker, content.tables["brokers"], "brokers")}


def test_transfer_since_the_last_count_keeps_the_former_owners_figures() -> None:
    cluster = small_extensible()
    own(cluster, LOW, "b2:8080", sourceBroker="b1:8080", mtime_ms=JUST_NOW_MS)
    row = bundles_of(take(cluster))[LOW]
    assert (row.owner, row.msg_rate_in_per_s, row.consumers) == ("b2:8080", 10.0, 2)


def test_new_owners_own_figures_win_over_the_former_owners() -> None:
    cluster = small_extensible()
    own(cluster, LOW, "b2:8080", sourceBroker="b1:8080", mtime_ms=JUST_NOW_MS)
    report_topic(cluster, "b2", LOW, LOW_TOPIC, msgRateIn=7.0)
    content = take(cluster)
    assert bundles_of(content)[LOW].msg_rate_in_per_s == 7.0
    assert content.tables["topics"].num_rows == 2


def test_longer_statistics_period_explains_older_changes() -> None:
    cluster = small_extensible()
    own(cluster, LOW, "b2:8080", sourceBroker="b1:8080", mtime_ms=SMALL_TAKEN_MS - 400_000)
    cluster.http.answers[f"http://b1:8080{RUNTIME_PATH}"]["statsUpdateFrequencyInSecs"] = "300"
    assert bundles_of(take(cluster))[LOW].owner == "b2:8080"


@pytest.mark.parametrize(("state", "owner"), [("Releasing", "b1:8080"), ("Assigning", None), ("Splitting", "b1:8080")])
def test_bundle_in_flight_keeps_its_state_and_load(state: str, owner: str | None) -> None:
    cluster = small_extensible()
    own(cluster, LOW, "b2:8080", sourceBroker="b1:8080", state=state)
    row = bundles_of(take(cluster))[LOW]
    assert (row.state, row.owner, row.msg_rate_in_per_s) == (state, owner, 10.0)


def test_bundle_freed_just_now_is_idle_and_a_note_says_so() -> None:
    cluster = small_extensible()
    own(cluster, LOW, "", state="Free", sourceBroker="b1:8080", mtime_ms=JUST_NOW_MS)
    content = take(cluster)
    row = bundles_of(content)[LOW]
    assert (row.owner, row.state, row.msg_rate_in_per_s, row.reported_at) == (None, "Free", 0.0, None)
    assert any(f"acme/orders/{LOW} lost its owner" in note for note in content.notes)


def test_topics_reported_under_a_split_parent_go_to_the_children_by_hash() -> None:
    cluster = small_extensible()
    set_boundaries(cluster, "0x00000000", "0x40000000", "0x80000000", "0xffffffff")
    del cluster.tree.nodes[f"/service_unit_state/acme/orders/{LOW}"]
    for child in ("0x00000000_0x40000000", "0x40000000_0x80000000"):
        own(cluster, child, "b1:8080")
    content = take(cluster)
    rows = bundles_of(content)
    topics = {t.topic: t for t in from_arrow(Topic, content.tables["topics"], "topics")}
    hit = topics[LOW_TOPIC]
    row = rows[hit.bundle.removeprefix("acme/orders/")]
    assert row.range_lower <= hit.hash < row.range_upper
    assert row.msg_rate_in_per_s == 10.0


def test_traces_of_a_split_are_passed_over_with_a_note() -> None:
    cluster = small_extensible()
    own(cluster, "0x00000000_0x40000000", "", state="Deleted", sourceBroker="b1:8080")
    content = take(cluster)
    assert set(bundles_of(content)) == {LOW, HIGH}
    assert any("0x00000000_0x40000000 (Deleted) is the trace of a split" in note for note in content.notes)


def test_children_of_a_split_under_way_are_no_second_owners() -> None:
    cluster = small_extensible()
    own(cluster, LOW, "", state="Splitting", sourceBroker="b1:8080")
    own(cluster, "0x00000000_0x40000000", "b1:8080", versionId=1)
    assert bundles_of(take(cluster))[LOW].state == "Splitting"


def test_split_between_boundaries_and_records_is_seen_by_reading_again() -> None:
    """The boundaries of before the split, the records of after it: at the second look both are of after it."""
    cluster = small_extensible()
    is_split = False

    def split_after_boundaries(paths: Sequence[str]) -> None:
        nonlocal is_split
        if is_split or "/service_unit_state/acme/orders" not in paths:
            return
        is_split = True
        set_boundaries(cluster, "0x00000000", "0x40000000", "0x80000000", "0xffffffff")
        del cluster.tree.nodes[f"/service_unit_state/acme/orders/{LOW}"]
        for child in ("0x00000000_0x40000000", "0x40000000_0x80000000"):
            own(cluster, child, "b1:8080")

    cluster.tree.before_read = split_after_boundaries
    content = take(cluster)
    assert len(cluster.pauses_s) == 1
    assert set(bundles_of(content)) == {"0x00000000_0x40000000", "0x40000000_0x80000000", HIGH}


def test_modular_report_older_than_the_new_owner_is_no_contradiction() -> None:
    cluster = small_modular()
    path = f"/namespace/acme/orders/{LOW}"
    cluster.tree.put(path, {"httpUrl": "http://b2:8080", "nativeUrl": "pulsar://b2:6650"}, mzxid=60)
    row = bundles_of(take(cluster))[LOW]
    assert (row.owner, row.msg_rate_in_per_s) == ("b2:8080", 10.0)


def test_modular_bundle_unloaded_after_the_report_is_idle() -> None:
    cluster = small_modular()
    del cluster.tree.nodes[f"/namespace/acme/orders/{LOW}"]
    cluster.tree.pzxids["/namespace/acme/orders"] = 60
    row = bundles_of(take(cluster))[LOW]
    assert (row.owner, row.state, row.msg_rate_in_per_s) == (None, "Init", 0.0)


def test_modular_report_from_before_a_split_is_passed_over_with_a_note() -> None:
    cluster = small_modular()
    report_bundle(cluster, "b1", "acme/orders/0x00000000_0xffffffff")
    set_boundaries(cluster, "0x00000000", "0x80000000", "0xffffffff", mzxid=60)
    assert any("is reported from before its split" in note for note in take(cluster).notes)


def test_modular_owner_that_is_leaving_is_releasing() -> None:
    cluster = small_modular()
    cluster.tree.put(f"/namespace/acme/orders/{LOW}", {"httpUrl": "http://b1:8080", "disabled": True})
    row = bundles_of(take(cluster))[LOW]
    assert (row.owner, row.state) == ("b1:8080", "Releasing")


def test_modular_limit_below_zero_is_unknown() -> None:
    cluster = small_modular()
    path = "/loadbalance/brokers/b1:8080"
    cluster.tree.put(path, cluster.tree.document(path) | {"bandwidthIn": {"usage": 5.0, "limit": -1000.0}}, mzxid=50)
    broker = brokers_of(take(cluster))["b1:8080"]
    assert (broker.bandwidth_in_usage_kbps, broker.bandwidth_in_limit_kbps) == (5.0, None)


def test_broker_that_never_reported_is_initial() -> None:
    cluster = small_modular(brokers=3)
    path = "/loadbalance/brokers/b3:8080"
    cluster.tree.put(path, cluster.tree.document(path) | {"lastUpdate": 0})
    content = take(cluster)
    assert brokers_of(content)["b3:8080"].state == "Initial"
    assert content.brokers_without_report == ("b3:8080",)


@pytest.mark.parametrize("small", [small_extensible, small_modular])
def test_broker_says_whether_it_serves_persistent_topics(small: Callable[[], RecordedCluster]) -> None:
    cluster = small()
    path = "/loadbalance/brokers/b1:8080"
    node = cluster.tree.nodes[path]
    served = cluster.tree.document(path) | {"persistentTopicsEnabled": False}
    cluster.tree.put(path, served, czxid=node.czxid, mzxid=node.mzxid)
    assert {name: row.takes_persistent_topics for name, row in brokers_of(take(cluster)).items()} == {
        "b1:8080": False,
        "b2:8080": True,
    }


def test_broker_marked_for_draining_is_stopping() -> None:
    cluster = small_extensible()
    cluster.tree.put("/evenkeel/lab/draining/b2:8080", None)
    states = {name: broker.state for name, broker in brokers_of(take(cluster)).items()}
    assert states == {"b1:8080": "Active", "b2:8080": "Stopping"}


def test_owner_that_is_not_registered_has_an_inactive_row() -> None:
    cluster = small_extensible()
    own(cluster, LOW, "b9:8080", mtime_ms=JUST_NOW_MS)
    content = take(cluster)
    gone = brokers_of(content)["b9:8080"]
    assert (gone.state, gone.incarnation, gone.reported_at) == ("Inactive", None, None)
    assert content.brokers_without_report == ("b9:8080",)
    assert any("b9:8080 owns bundles but is not registered" in note for note in content.notes)


def test_heartbeat_and_sla_namespaces_are_left_out() -> None:
    cluster = small_extensible()
    for namespace in ("pulsar/b1:8080", "sla-monitor/b1:8080"):
        cluster.tree.put(f"/service_unit_state/{namespace}/0x00000000_0xffffffff", b"whatever")
        cluster.http.answers[f"http://b1:8080{TOPICS_PATH}"][namespace] = {}
    assert set(bundles_of(take(cluster))) == {LOW, HIGH}


def test_names_that_pulsar_ignores_are_noted() -> None:
    cluster = small_extensible()
    cluster.tree.put("/service_unit_state/acme/orders/scratch", b"")
    assert any("/service_unit_state/acme/orders/scratch" in note for note in take(cluster).notes)


def test_broker_without_measured_resources_has_no_report_yet() -> None:
    cluster = small_extensible(brokers=3)
    cluster.http.answers[f"http://b3:8080{METRICS_PATH}"] = []
    content = take(cluster)
    assert content.brokers_without_report == ("b3:8080",)
    assert any("b3:8080 gave no load report" in note for note in content.notes)


def owned_by(cluster: RecordedCluster, host: str, *ranges: str) -> None:
    """Turn to the system-topic view: no records, but each broker's own word."""
    cluster.http.answers[f"http://{host}:8080{RUNTIME_PATH}"] = {"clusterName": "lab"}
    status = {"broker_assignment": "shared", "is_controlled": False, "is_active": True}
    cluster.http.answers[f"http://{host}:8080/admin/v2/brokers/lab/{host}:8080/ownedNamespaces"] = {
        f"acme/orders/{name}": status for name in ranges
    }


def test_system_topic_view_is_read_from_each_brokers_word() -> None:
    cluster = small_extensible()
    owned_by(cluster, "b1", LOW)
    owned_by(cluster, "b2", HIGH)
    content = take(cluster)
    assert content.load_manager is LoadManager.EXTENSIBLE_SYSTEM_TOPIC
    rows = bundles_of(content)
    assert {name: row.owner for name, row in rows.items()} == {LOW: "b1:8080", HIGH: "b2:8080"}
    assert {(row.version_id, row.znode_version, row.msg_rate_in_per_s) for row in rows.values()} == {(None, None, 10.0)}


def test_system_topic_view_refuses_two_owners_by_name() -> None:
    cluster = small_extensible()
    owned_by(cluster, "b1", LOW)
    owned_by(cluster, "b2", LOW, HIGH)
    with pytest.raises(Exception, match=f"{LOW} is owned by two brokers, b1:8080 and b2:8080"):
        take(cluster)


def test_incarnation_older_than_one_seen_is_refused() -> None:
    """The first look finds a restarted broker, a later one the broker before the restart: an old copy answers."""
    cluster = small_extensible()
    path, looks = "/loadbalance/brokers/b2:8080", 0

    def set_back(paths: Sequence[str]) -> None:
        nonlocal looks
        if path in paths:
            looks += 1
            cluster.tree.put(path, cluster.tree.document(path), mzxid=12 if looks > 1 else 20)

    cluster.tree.before_read = set_back
    with pytest.raises(RefusedError, match="broker b2:8080 is registered as incarnation 12, but 20 was seen before"):
        take(cluster)


def test_bundle_of_another_session_than_its_brokers_registration_means_two_brokers_under_one_id() -> None:
    cluster = small_modular()
    register_with_session(cluster, 7)
    own_with_session(cluster, 8)
    with pytest.raises(RefusedError, match="two brokers are registered or own bundles under the id b1:8080"):
        take(cluster)
    assert cluster.pauses_s, "it was looked at again before it was refused"


def test_broker_that_takes_a_new_session_while_it_is_read_is_no_second_broker() -> None:
    cluster = small_modular()
    register_with_session(cluster, 7)
    own_with_session(cluster, 8)
    looks = 0

    def register_anew(paths: Sequence[str]) -> None:
        nonlocal looks
        looks += "/loadbalance/brokers/b1:8080" in paths
        if looks > 2:
            register_with_session(cluster, 8)

    cluster.tree.before_read = register_anew
    assert bundles_of(take(cluster))[LOW].owner == "b1:8080"


def test_broker_that_has_been_silent_past_its_own_time_out_is_noted() -> None:
    cluster = small_modular()
    path = "/loadbalance/brokers/b2:8080"
    report = cluster.tree.document(path) | {"lastUpdate": SMALL_TAKEN_MS - 4_000_000}
    cluster.tree.put(path, report, czxid=12, mzxid=50)
    content = take(cluster)
    assert brokers_of(content)["b2:8080"].state == "Inactive"
    assert "broker b2:8080 has stopped reporting and is taken to refuse new bundles (for 4000 s)" in content.notes


def register_with_session(cluster: RecordedCluster, session_id: int) -> None:
    path = "/loadbalance/brokers/b1:8080"
    cluster.tree.put(path, cluster.tree.document(path), czxid=11, mzxid=50, ephemeral_owner=session_id)


def own_with_session(cluster: RecordedCluster, session_id: int) -> None:
    path = f"/namespace/acme/orders/{LOW}"
    cluster.tree.put(path, cluster.tree.document(path), mzxid=40, ephemeral_owner=session_id)
