"""Single rules on frames of their own, where a whole gate would say no more."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession

from evenkeel.gates.frames import frame_of
from evenkeel.gates.rules.base import Rule, tell_breaches
from evenkeel.gates.rules.broker_rules import BrokersHaveReports
from evenkeel.gates.rules.bundle_rules import LoadHasAnOwner, OwnersAreRegistered, RangesTileTheRing
from evenkeel.gates.snapshot_gate import with_owners
from evenkeel.model.snapshot import Broker, Bundle
from support import small_cluster
from support.small_cluster import B01, change

FIRST = "shop/orders/0x00000000_0x40000000"


def breaches(rule: Rule, rows: DataFrame) -> list[str]:
    return sorted(row["detail"] for row in rule.find_breaches(rows).collect())


def owned(spark: SparkSession, brokers: Sequence[Broker], bundles: Sequence[Bundle]) -> DataFrame:
    return with_owners(frame_of(spark, Bundle, bundles), frame_of(spark, Broker, brokers))


def test_gaps_of_the_ring_are_named_where_they_are(spark: SparkSession) -> None:
    whole = [row for row in small_cluster.bundles() if row.namespace == "shop/orders"]
    missing = {"beginning": 0, "middle": 1, "end": 3}
    rows = [
        dataclasses.replace(row, namespace=f"shop/{name}")
        for name, gone in missing.items()
        for index, row in enumerate(whole)
        if index != gone
    ]
    assert breaches(RangesTileTheRing(), frame_of(spark, Bundle, whole + rows)) == [
        "namespace shop/beginning: a gap from 0x00000000 to 0x40000000",
        "namespace shop/end: a gap from 0xc0000000 to 0xffffffff",
        "namespace shop/middle: a gap from 0x40000000 to 0x80000000",
    ]


def test_range_inside_another_is_an_overlap_and_no_gap(spark: SparkSession) -> None:
    first, second, *_ = (row for row in small_cluster.bundles() if row.namespace == "shop/orders")
    rows = [dataclasses.replace(first, range_upper=0xFFFFFFFF), second]
    expected = ["namespace shop/orders: an overlap at 0x40000000_0x80000000"]
    assert breaches(RangesTileTheRing(), frame_of(spark, Bundle, rows)) == expected


def test_owner_that_is_not_registered_is_named_with_its_bundles(spark: SparkSession) -> None:
    brokers = change(small_cluster.brokers(), "broker_id", B01, incarnation=None, state="Inactive")
    found = breaches(OwnersAreRegistered(), owned(spark, brokers, small_cluster.bundles()))
    assert found == [f"broker {B01} owns 3 bundles, such as {FIRST}, but is not registered"]


def test_bundle_in_flight_may_have_load_without_an_owner(spark: SparkSession) -> None:
    rows = change(small_cluster.bundles(), "bundle", FIRST, owner=None, state="Assigning")
    assert breaches(LoadHasAnOwner(), frame_of(spark, Bundle, rows)) == []


def test_imported_brokers_need_no_report_and_count_as_registered(spark: SparkSession) -> None:
    brokers = [
        dataclasses.replace(row, reported_at=None, incarnation=None, load_manager="imported")
        for row in small_cluster.brokers()
    ]
    assert breaches(BrokersHaveReports(without_report=[]), frame_of(spark, Broker, brokers)) == []
    assert breaches(OwnersAreRegistered(), owned(spark, brokers, small_cluster.bundles())) == []


def test_first_breaches_are_named_and_the_rest_is_counted() -> None:
    assert tell_breaches(["one"], 1) == "one"
    assert tell_breaches(["one", "two", "three"], 1203) == "one; two; three (and 1,200 more)"
