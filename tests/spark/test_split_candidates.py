"""Split candidates: PIP-192's conditions, hits in a row, caps and ranks."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.testing import assertDataFrameEqual

from evenkeel.adapters.lake.store import Lake
from evenkeel.model.bundles import is_system_namespace
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle
from evenkeel_spark.history import find_history
from evenkeel_spark.lake_frames import read_bundle_history
from evenkeel_spark.transforms.columns import is_system
from evenkeel_spark.transforms.split_candidates import split_candidates
from support.lakes import CLUSTER, TAKEN_AT, make_bundle, make_random_bundles, shift_load, write_snapshot

A, B, C, D = (f"t/n/0x{lower:08x}_0x{lower + 16:08x}" for lower in (0, 16, 32, 48))
ONCE = Settings(namespace_bundle_split_condition_hit_count_threshold=0)
MIB = 1 << 20


def hot(name: str, **fields: Any) -> Bundle:
    """A bundle over the rate threshold."""
    load: dict[str, Any] = {"msg_rate_in_per_s": 30_001.0, "topics": 5}
    return make_bundle(name, **(load | fields))


def cold(name: str) -> Bundle:
    return make_bundle(name, topics=5)


def history_of(spark: SparkSession, lake: Lake, snapshots: list[list[Bundle]]) -> DataFrame:
    """Snapshots five minutes apart, oldest first, as the last one sees them."""
    last = None
    for ago, bundles in zip(range(len(snapshots) - 1, -1, -1), snapshots, strict=True):
        last = write_snapshot(lake, bundles, taken_at=TAKEN_AT - timedelta(minutes=5 * ago))
    assert last is not None
    return read_bundle_history(spark, lake, find_history(lake, CLUSTER, last.snapshot_id, 7.0))


def find(spark: SparkSession, lake: Lake, snapshots: list[list[Bundle]], settings: Settings) -> list[Row]:
    frame = history_of(spark, lake, snapshots).transform(split_candidates, settings)
    return sorted(frame.collect(), key=lambda row: row["rank"])


CONDITIONS: dict[str, tuple[dict[str, Any], str | None]] = {
    "topics": ({"topics": 1_001, "producers": 2_000, "msg_rate_in_per_s": 40_000.0}, "Topics"),
    "sessions": ({"topics": 1_000, "producers": 500, "consumers": 501, "msg_rate_in_per_s": 40_000.0}, "Sessions"),
    "rate": ({"topics": 2, "msg_rate_in_per_s": 15_000.0, "msg_rate_out_per_s": 15_000.1}, "MsgRate"),
    "bandwidth": (
        {"topics": 2, "throughput_in_bytes_per_s": 60.0 * MIB, "throughput_out_bytes_per_s": 41.0 * MIB},
        "Bandwidth",
    ),
    "at-the-thresholds": ({"topics": 1_000, "producers": 1_000, "msg_rate_in_per_s": 30_000.0}, None),
    "at-the-bandwidth": ({"topics": 2, "throughput_in_bytes_per_s": 100.0 * MIB}, None),
    "one-topic": ({"topics": 1, "msg_rate_in_per_s": 40_000.0}, None),
    "idle": ({"topics": 5, "msg_rate_in_per_s": 40_000.0, "owner": None}, None),
    "in-flight": ({"topics": 5, "msg_rate_in_per_s": 40_000.0, "state": "Splitting"}, None),
}


def test_first_condition_met_is_the_reason(spark: SparkSession, lake: Lake) -> None:
    bundles = [make_bundle(f"t/{name}/0x00000000_0x00000010", **fields) for name, (fields, _) in CONDITIONS.items()]
    bundles.append(hot("t/one-hash/0x00000000_0x00000001"))
    bundles.append(hot("pulsar/b1:8080/0x00000000_0xffffffff"))
    found = {row["namespace"]: row["reason"] for row in find(spark, lake, [bundles], ONCE)}
    assert found == {f"t/{name}": reason for name, (_, reason) in CONDITIONS.items() if reason is not None}


def test_sessions_count_only_where_a_threshold_is_set(spark: SparkSession, lake: Lake) -> None:
    settings = dataclasses.replace(ONCE, namespace_bundle_max_sessions=0)
    assert find(spark, lake, [[make_bundle(A, topics=5, producers=9_999)]], settings) == []


def test_hits_in_a_row_must_exceed_the_threshold_and_a_miss_resets_them(spark: SparkSession, lake: Lake) -> None:
    # Oldest first: + met a condition, - did not, . was not there.
    stories = {A: "-++++", B: "+++-+", C: "++.++", D: "++++-"}
    made = {"+": hot, "-": cold}
    snapshots = [[made[s[moment]](name) for name, s in stories.items() if s[moment] != "."] for moment in range(5)]
    assert {row["bundle"]: row["hits"] for row in find(spark, lake, snapshots, ONCE)} == {A: 4, B: 1, C: 2}
    assert [row["bundle"] for row in find(spark, lake, snapshots, Settings())] == [A]


def test_namespaces_that_are_left_whole_do_not_use_up_the_cap(spark: SparkSession, lake: Lake) -> None:
    bundles = [hot("u/n/0x00000000_0x00000010", msg_rate_in_per_s=50_000.0), hot(A)]
    few = dataclasses.replace(ONCE, max_number_of_bundles_to_split_per_cycle=1)
    found = history_of(spark, lake, [bundles]).transform(split_candidates, few, {"u/n"}).collect()
    assert [row["bundle"] for row in found] == [A]


def test_bundle_that_shares_an_end_with_a_splitting_one_waits(spark: SparkSession, lake: Lake) -> None:
    # t/n: a parent that is splitting, both children with an owner already, a neighbour | u/n: the same range
    parent, lower, upper = (f"t/n/0x000000{ends}" for ends in ("00_0x00000010", "00_0x00000008", "08_0x00000010"))
    other = "u/n/0x00000000_0x00000010"
    bundles = [hot(parent, state="Splitting"), hot(lower), hot(upper), hot(B), hot(other)]
    assert [row["bundle"] for row in find(spark, lake, [bundles], ONCE)] == [B, other]


def test_candidates_are_ranked_hottest_first_and_ties_by_name(spark: SparkSession, lake: Lake) -> None:
    bundles = [hot(B), hot(A), hot(C, msg_rate_in_per_s=50_000.0), hot(D, throughput_in_bytes_per_s=1.0)]
    found = find(spark, lake, [bundles], ONCE)
    assert [(row["rank"], row["bundle"]) for row in found] == [(1, D), (2, C), (3, A), (4, B)]


def test_caps_per_namespace_and_per_cycle_hold(spark: SparkSession, lake: Lake) -> None:
    bundles = [hot(A), hot(B), cold(C), hot("u/n/0x00000000_0x00000010"), hot("u/n/0x00000010_0x00000020")]
    narrow = dataclasses.replace(ONCE, namespace_maximum_bundles=4)
    assert [row["bundle"] for row in find(spark, lake, [bundles], narrow)] == [A, *(b.bundle for b in bundles[3:])]
    few = dataclasses.replace(narrow, max_number_of_bundles_to_split_per_cycle=2)
    assert [row["bundle"] for row in find(spark, lake, [bundles], few)] == [A, bundles[3].bundle]
    full = dataclasses.replace(ONCE, namespace_maximum_bundles=2)
    assert find(spark, lake, [[hot(A), hot(B)]], full) == []


def test_system_namespaces_are_those_of_the_model(spark: SparkSession) -> None:
    names = ["pulsar/system", "pulsar/b1:8080", "pulsar/ns", "sla-monitor/x", "public/default", "pulsar/system2"]
    frame = spark.createDataFrame([(name,) for name in names], "namespace string")
    found = {row["namespace"] for row in frame.where(is_system(F.col("namespace"))).collect()}
    assert found == {name for name in names if is_system_namespace(name)}


def test_candidates_do_not_depend_on_partitioning(spark: SparkSession, lake: Lake) -> None:
    bundles = make_random_bundles(brokers=3, bundles_per_broker=20, seed=5, namespaces=4)
    settings = dataclasses.replace(ONCE, namespace_bundle_max_msg_rate=200.0)
    history = history_of(spark, lake, [shift_load(bundles, factor) for factor in (1.0, 0.2, 0.9, 1.1)])
    found = history.repartition(1).transform(split_candidates, settings)
    assert found.count() == settings.max_number_of_bundles_to_split_per_cycle
    assertDataFrameEqual(found, history.repartition(7).transform(split_candidates, settings))
