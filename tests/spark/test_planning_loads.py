"""The load that is planned for: which rates, whose cpu, and how much of the measured traffic."""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from evenkeel.model.load import AVERAGE_WEIGHT_MILLIS, BundleProfile, HourlyPeak
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem.loads import share_cpu
from evenkeel_spark.lake_frames import spark_schema
from evenkeel_spark.transforms.planning_loads import LoadTables, planned_rates, planning_loads
from support.lakes import make_broker

HOURS = (12, 13, 14, 15)
GIGABYTE = 1_000_000_000
SEED = 20260105


def make_profile(bundle: str, owner: str | None = "b1:8080", **fields: Any) -> BundleProfile:
    """A bundle whose load over time is 10, 20, 30, 40 of everything: now, median, 95th percentile, peak."""
    rates = {
        f"{pattern.format(name)}": value
        for pattern in ("msg_rate_{}_millis", "throughput_in_{}_bytes_per_s", "throughput_out_{}_bytes_per_s")
        for name, value in (("now", 10), ("p50", 20), ("p95", 30), ("peak", 40))
    }
    identity = {"namespace": "t/n", "state": "Owned", "version_id": 1, "topics": 1, "sessions": 1, "samples": 4}
    return BundleProfile(**({"bundle": bundle, "owner": owner} | identity | rates | fields))


def make_tables(spark: SparkSession, profiles: Sequence[BundleProfile], peaks: Sequence[HourlyPeak] = ()) -> LoadTables:
    def frame(table: type, rows: Sequence[Any]) -> DataFrame:
        schema = spark_schema(table)
        return spark.createDataFrame([tuple(getattr(row, name) for name in schema.names) for row in rows], schema)

    return LoadTables(frame(BundleProfile, profiles), frame(HourlyPeak, peaks))


def loads_of(
    tables: LoadTables, brokers: Sequence[Broker], settings: Settings | None = None, partitions: int = 3
) -> Mapping[str, tuple[int, int, int, int]]:
    """Messages, bytes in, bytes out and cpu by bundle."""
    chosen = settings or Settings()
    loads = planned_rates(tables, HOURS, chosen).repartition(partitions).transform(planning_loads, brokers, chosen)
    names = ("msg_rate_millis", "throughput_in", "throughput_out", "cpu_millipercent")
    return {row["bundle"]: tuple(row[name] for name in names) for row in loads.collect()}


@pytest.mark.parametrize(
    ("planning_load", "expected"),
    [
        # The broker's 100 % belong to the 20 thousandths of a message that its two bundles have now.
        ("now", (10, 10, 10, 50_000)),
        ("p95", (30, 30, 30, 150_000)),
        ("peak", (40, 40, 40, 200_000)),
    ],
)
def test_planning_load_is_chosen_by_the_settings_and_cpu_follows_the_messages(
    spark: SparkSession, planning_load: str, expected: tuple[int, ...]
) -> None:
    tables = make_tables(spark, [make_profile("u"), make_profile("v")])
    brokers = [make_broker("b1:8080", cpu_usage_percent=100.0)]
    settings = Settings.from_json({"planning_load": planning_load})
    assert loads_of(tables, brokers, settings) == {"u": expected, "v": expected}


def test_peak_is_that_of_the_hours_until_the_plan_expires_where_the_history_knows_them_all(
    spark: SparkSession,
) -> None:
    peaks = [HourlyPeak("known", hour, 1, hour, 2 * hour, 3 * hour) for hour in (3, *HOURS)]
    peaks += [HourlyPeak("young", hour, 1, 900, 900, 900) for hour in HOURS[:-1]]
    profiles = [make_profile(name, msg_rate_peak_millis=77) for name in ("known", "young")]
    settings = Settings.from_json({"planning_load": "peak"})
    loads = loads_of(make_tables(spark, profiles, peaks), [make_broker("b1:8080")], settings)
    assert {name: load[:3] for name, load in loads.items()} == {"known": (15, 30, 45), "young": (77, 40, 40)}


def test_cpu_shares_are_those_of_the_planner(spark: SparkSession) -> None:
    rates, owners = [1_001, 2_000, 4_000, 0, 7, 0], ["b1", "b1", "b1", "b2", "b3", "b1"]
    usage = {"b1": 333.333, "b2": 50.0, "b3": None}
    profiles = [
        make_profile(name, owner, msg_rate_now_millis=rate)
        for name, owner, rate in zip("uvwxyz", owners, rates, strict=True)
    ]
    tables = make_tables(spark, profiles)
    brokers = [make_broker(name, cpu_usage_percent=percent) for name, percent in usage.items()]
    expected = share_cpu(rates, [list(usage).index(owner) for owner in owners], list(usage.values())).tolist()
    assert sum(expected) in range(333_332, 333_335)
    for partitions in (1, 5):
        loads = loads_of(tables, brokers, partitions=partitions)
        assert [loads[name][3] for name in "uvwxyz"] == expected


def test_messages_that_cost_more_get_more_of_the_cpu(spark: SparkSession) -> None:
    dear = make_profile("dear", cpu_weight_millis=3 * AVERAGE_WEIGHT_MILLIS)
    tables = make_tables(spark, [dear, make_profile("plain")])
    loads = loads_of(tables, [make_broker("b1:8080", cpu_usage_percent=100.0)])
    assert {name: load[3] for name, load in loads.items()} == {"dear": 75_000, "plain": 25_000}


def test_idle_bundles_and_unmeasured_brokers_have_no_cpu(spark: SparkSession) -> None:
    tables = make_tables(spark, [make_profile("idle", None), make_profile("stranger", "b9:8080"), make_profile("u")])
    loads = loads_of(tables, [make_broker("b1:8080", cpu_usage_percent=None)])
    assert loads == dict.fromkeys(("idle", "stranger", "u"), (10, 10, 10, 0))


def test_measured_traffic_beyond_the_bundles_is_no_load_unless_it_is_spread_over_them(spark: SparkSession) -> None:
    rates = {"throughput_in_now_bytes_per_s": 300, "throughput_out_now_bytes_per_s": 300}
    tables = make_tables(spark, [make_profile("u", **rates), make_profile("v"), make_profile("w", "b2:8080")])
    # 8 kbit/s are 1,000 bytes/s in, 1.6 are 200 out: less than the bundles have, so nothing is taken away from them.
    brokers = [
        make_broker("b1:8080", bandwidth_in_usage_kbps=8.0, bandwidth_out_usage_kbps=1.6),
        make_broker("b2:8080", bandwidth_in_usage_kbps=None, bandwidth_out_usage_kbps=None),
    ]
    as_bundles = {"u": (300, 300), "v": (10, 10), "w": (10, 10)}
    assert {name: load[1:3] for name, load in loads_of(tables, brokers).items()} == as_bundles
    scaled = loads_of(tables, brokers, Settings.from_json({"bandwidth_model": "scaled"}))
    assert {name: load[1:3] for name, load in scaled.items()} == as_bundles | {"u": (968, 300), "v": (32, 10)}


def test_spread_traffic_grows_with_the_planned_load(spark: SparkSession) -> None:
    brokers = [make_broker("b1:8080", bandwidth_in_usage_kbps=0.16, bandwidth_out_usage_kbps=0.24)]
    settings = Settings.from_json({"bandwidth_model": "scaled", "planning_load": "p95"})
    assert loads_of(make_tables(spark, [make_profile("u")]), brokers, settings)["u"][1:3] == (60, 90)


def test_large_figures_do_not_overflow(spark: SparkSession) -> None:
    rates = {"throughput_in_now_bytes_per_s": 10 * GIGABYTE, "msg_rate_now_millis": 10_000 * GIGABYTE // 1000}
    profiles = [make_profile(name, cpu_weight_millis=1_000_000, **rates) for name in "uv"]
    brokers = [make_broker("b1:8080", cpu_usage_percent=12_800.0, bandwidth_in_usage_kbps=4e8)]
    loads = loads_of(make_tables(spark, profiles), brokers, Settings.from_json({"bandwidth_model": "scaled"}))
    assert {load[1] for load in loads.values()} == {25 * GIGABYTE}
    assert {load[3] for load in loads.values()} == {6_400_000}


@pytest.mark.parametrize("planning_load", ["now", "p95", "peak"])
def test_loads_do_not_depend_on_partitions_or_the_order_of_rows(spark: SparkSession, planning_load: str) -> None:
    chance = random.Random(SEED)
    names = [field.name for field in dataclasses.fields(BundleProfile) if re.search("_(now|p95|peak)_", field.name)]
    profiles = [
        make_profile(
            f"bundle-{place}",
            f"b{chance.randrange(3)}:8080",
            cpu_weight_millis=chance.randrange(300, 3_000),
            **{name: chance.randrange(10**7) for name in names},
        )
        for place in range(60)
    ]
    peaks = [HourlyPeak(row.bundle, hour, 1, *chance.choices(range(10**7), k=3)) for row in profiles for hour in HOURS]
    usage = {"bandwidth_in_usage_kbps": 9e6, "bandwidth_out_usage_kbps": 9e6}
    brokers = [make_broker(f"b{n}:8080", cpu_usage_percent=chance.uniform(1, 800), **usage) for n in range(3)]
    settings = Settings.from_json({"planning_load": planning_load, "bandwidth_model": "scaled"})
    loads = loads_of(make_tables(spark, profiles, peaks), brokers, settings, partitions=1)
    chance.shuffle(profiles)
    chance.shuffle(peaks)
    assert loads_of(make_tables(spark, profiles, peaks), brokers, settings, partitions=7) == loads, f"seed {SEED}"
