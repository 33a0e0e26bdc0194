"""Splits on frames: cuts by the topics of few bundles, and a giant that is split and moved in one plan."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.requests import RequestStore
from evenkeel.adapters.lake.store import Lake, to_arrow
from evenkeel.model.errors import RefusedError
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Bundle, Topic
from evenkeel.planning.problem.pools import assign_pools, live_broker_ids
from evenkeel.planning.splitting import choice
from evenkeel.planning.splitting.cuts import PPB, Cut, CutBasis
from evenkeel_spark.cluster_loads import BUNDLE_COLUMNS, ClusterLoads, boundaries_of
from evenkeel_spark.driver_loads import DriverLoads
from evenkeel_spark.jobs import run_jobs
from evenkeel_spark.planning import PlanningInputs, find_large_bundles, require_legal
from evenkeel_spark.spark_loads import SparkLoads
from evenkeel_spark.transforms.planning_loads import planning_loads, rates_now
from support import small_cluster, small_plan
from support.clusters import random_cluster
from support.frames import frame_of
from support.lakes import make_broker, make_bundle, write_request, write_snapshot

MB = 1e6
GIANT, OTHER = "t/giant/0x00000000_0xffffffff", "t/other/0x00000000_0xffffffff"
LOWER, UPPER = "t/giant/0x00000000_0x20000001", "t/giant/0x20000001_0xffffffff"


def topic(bundle: str, place: int, megabytes: float) -> Topic:
    rates = {"throughput_in_bytes_per_s": megabytes * MB, "throughput_out_bytes_per_s": megabytes * MB}
    return Topic(f"persistent://t/n/{place}", bundle, place, producers=1, consumers=1, **rates)


# 400 MB/s on one topic below, 350 on two above
TOPICS = [topic(GIANT, 0x10000000, 400), topic(GIANT, 0x30000000, 150), topic(GIANT, 0xC0000000, 200)]


def topics_held(spark: SparkSession, topics: Sequence[Topic], partitions: int) -> ClusterLoads:
    """The topics on so many partitions of Spark, or on the driver where there are none."""
    bundles = small_cluster.bundles()
    if partitions == 0:
        rows = to_arrow(Bundle, bundles), None, to_arrow(Topic, topics)
        return DriverLoads.of_snapshot(*rows, small_cluster.brokers(), (), Settings())
    return SparkLoads(frame_of(spark, Bundle, bundles), frame_of(spark, Topic, topics).repartition(partitions))


@pytest.mark.parametrize("partitions", [0, 1, 5])
def test_topics_of_the_asked_bundles_decide_where_they_are_cut(spark: SparkSession, partitions: int) -> None:
    loads = topics_held(spark, [*TOPICS, topic(OTHER, 7, 1)], partitions)
    idle = "t/idle/0x00000000_0x00000010"
    assert loads.find_cuts(dict.fromkeys([GIANT, idle, "t/narrow/0x00000000_0x00000001"])) == {
        GIANT: Cut(
            boundary=0x20000001,
            boundary_by=CutBasis.TOPIC_LOAD,
            lower_topics_ppb=PPB // 3,
            lower_sessions_ppb=PPB // 3,
            lower_msg_rate_ppb=PPB // 2,
            lower_throughput_in_ppb=400 * PPB // 750,
            lower_throughput_out_ppb=400 * PPB // 750,
        ),
        idle: Cut(boundary=8, boundary_by=CutBasis.RANGE),
    }
    assert loads.find_cuts({}) == {}


@pytest.mark.parametrize("most_on_driver", [0, 5_000])
def test_giant_is_split_and_its_child_moved_by_the_jobs_of_one_plan(
    spark: SparkSession, lake: Lake, monkeypatch: pytest.MonkeyPatch, most_on_driver: int
) -> None:
    monkeypatch.setattr("evenkeel_spark.jobs.MOST_BUNDLES_ON_DRIVER", most_on_driver)
    # b1: 750 MB/s of 1250 | b2: 50 MB/s; no history, so no hits
    brokers = [make_broker("b1:8080", cpu_usage_percent=80.0), make_broker("b2:8080", cpu_usage_percent=80.0)]
    rates = ("throughput_in_bytes_per_s", "throughput_out_bytes_per_s")
    bundles = [
        make_bundle(GIANT, "b1:8080", topics=3, producers=3, consumers=3, **dict.fromkeys(rates, 750 * MB)),
        make_bundle(OTHER, "b2:8080", topics=1, **dict.fromkeys(rates, 50 * MB)),
    ]
    manifest = write_snapshot(lake, bundles, brokers, topics=TOPICS)
    settings = Settings(namespace_bundle_max_bandwidth_mbytes="auto")
    write_request(lake, manifest.snapshot_id, settings=settings)
    answer = run_jobs(lake.uri, "request-1", lambda: spark, lambda _: None)
    candidates = RequestStore(lake).read_answer(RequestStore(lake).load("request-1"), "find_split_candidates")
    assert candidates is not None
    assert candidates["rows"] == 0
    steps = PlanStore(lake).load(answer["plan_id"]).steps
    assert [(step.wave, step.kind, step.bundle, step.destination) for step in steps] == [
        (0, "split", GIANT, None),
        (1, "transfer", UPPER, "b2:8080"),
    ]
    assert steps[0].split_boundary == 0x20000001
    assert steps[0].reason.startswith(
        "too big for any broker that may own it: it uses 60.0 % of b1:8080's bandwidth in"
    )
    assert (steps[1].throughput_in_bytes_per_s, steps[1].topics, steps[1].sessions) == (350_000_000, 2, 4)


def test_plan_that_breaks_a_rule_is_never_written(spark: SparkSession) -> None:
    brokers = small_cluster.brokers()
    rates = frame_of(spark, Bundle, small_cluster.bundles()).transform(rates_now)
    frame = rates.transform(planning_loads, brokers, Settings())
    inputs = PlanningInputs(brokers, Policies(), small_plan.SETTINGS)
    places: list[ClusterLoads] = [
        SparkLoads(frame, frame_of(spark, Topic, [])),
        small_cluster.judged(Settings()).loads,
    ]
    for loads in places:
        require_legal(loads, [small_plan.step()], inputs)
        with pytest.raises(RefusedError, match=r"breaks the rule version in step 0 \(.*\): report this as a bug"):
            require_legal(loads, [small_plan.step(expected_version_id=8)], inputs)


@pytest.mark.parametrize("partitions", [0, 1, 3])
def test_topics_say_what_any_cut_gives_to_the_lower_child(spark: SparkSession, partitions: int) -> None:
    loads = topics_held(spark, TOPICS, partitions)
    best = small_plan.step(kind="split", bundle=GIANT, split_boundary=0x20000001)
    assert loads.find_cuts(boundaries_of([best])) == loads.find_cuts({GIANT: None})
    after_the_second = loads.find_cuts(boundaries_of([dataclasses.replace(best, split_boundary=0x30000001)]))[GIANT]
    assert after_the_second.lower_throughput_in_ppb == 550 * PPB // 750
    assert after_the_second.lower_topics_ppb == 2 * PPB // 3
    assert loads.find_cuts(boundaries_of([small_plan.step(), dataclasses.replace(best, split_boundary=0)])) == {}


def test_large_bundles_are_the_same_without_spark(spark: SparkSession) -> None:
    cluster = random_cluster(1)
    namespaces = cluster.bundles.namespace.tolist()
    # Ranges wide enough to be cut, and some bundles with a single topic.
    names = [f"{name}/0x{row << 8:08x}_0x{row + 1 << 8:08x}" for row, name in enumerate(namespaces)]
    topics = [1 + row % 5 for row in range(len(names))]
    bundles = dataclasses.replace(cluster.bundles, bundle=np.array(names, dtype=object), topics=np.array(topics))
    frame = spark.createDataFrame(pa.table({name: getattr(bundles, name).tolist() for name in BUNDLE_COLUMNS}))
    places: list[ClusterLoads] = [
        SparkLoads(frame, frame_of(spark, Topic, [])),
        DriverLoads(bundles, to_arrow(Topic, [])),
    ]
    pools = assign_pools(set(namespaces), live_broker_ids(cluster.brokers), cluster.policies)
    inputs = PlanningInputs(list(cluster.brokers), cluster.policies, Settings())
    found, on_driver = (find_large_bundles(loads, loads.namespace_totals(), pools, inputs) for loads in places)
    assert found == on_driver
    assert found == choice.find_large_bundles(cluster.brokers, bundles, cluster.policies, Settings())
    assert 0 < len(found) < len(names) / 2
