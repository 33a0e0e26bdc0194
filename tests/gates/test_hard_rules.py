"""The verifier sees a summary of the cluster, and has to say what it says of the whole."""

from __future__ import annotations

import dataclasses
import random
from datetime import timedelta

import pytest
from pyspark.sql import SparkSession

from evenkeel.gates.plan_gate import JudgedSnapshot, PlacedLoads
from evenkeel.model.bundles import RING_END, BundleName, ranges_between
from evenkeel.model.plan import Step
from evenkeel.model.policies import Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle, Topic
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.problem.loads import share_cpu
from evenkeel.planning.verifier.verifier import find_violations
from evenkeel_spark.cluster_loads import ClusterLoads
from evenkeel_spark.driver_loads import DriverLoads
from evenkeel_spark.spark_loads import SparkLoads
from evenkeel_spark.transforms.planning_loads import judged_rates, planning_loads
from support import small_cluster, small_plan
from support.frames import frame_of
from support.small_cluster import MEGABYTE, TAKEN_AT

SEED = 20260131
BROKERS, NAMESPACES, STEPS = 6, 12, 30
PARTS = (0, 0x40000000, 0x80000000, 0xC0000000, RING_END)
GROUPS = {"shop/ns-01": "Spread", "shop/ns-02": "spread", "shop/ns-03": "other"}
SETTINGS = Settings(broker_overloaded_threshold_percentage=30.0, canary_steps=10)


def cluster(chance: random.Random) -> tuple[list[Broker], list[Bundle]]:
    model = small_cluster.brokers()[0]
    brokers = [
        dataclasses.replace(
            model,
            broker_id=f"b{n:02}.fleet:8080",
            incarnation=n,
            cpu_usage_percent=chance.uniform(20, 200),
            failure_domain=f"zone-{n % 2}",
            state="Stopping" if n == 0 else "Active",
        )
        for n in range(BROKERS)
    ]
    bundles = []
    for n in range(NAMESPACES):
        namespace = "pulsar/system" if n == 0 else f"shop/ns-{n:02}"
        for part in ranges_between(PARTS):
            bundle = dataclasses.replace(small_cluster.bundles()[0], reported_at=TAKEN_AT - timedelta(seconds=1))
            tenant, _, local = namespace.partition("/")
            bundles.append(
                dataclasses.replace(
                    bundle,
                    namespace=namespace,
                    bundle=str(BundleName(tenant, local, part)),
                    owner=chance.choice(brokers).broker_id,
                    msg_rate_in_per_s=chance.uniform(0, 1000),
                    throughput_in_bytes_per_s=chance.uniform(0, 9 * MEGABYTE),
                    throughput_out_bytes_per_s=chance.uniform(0, 9 * MEGABYTE),
                )
            )
    return brokers, bundles


def random_steps(chance: random.Random, brokers: list[Broker], bundles: list[Bundle]) -> list[Step]:
    steps = []
    for order, bundle in enumerate(chance.sample(bundles, STEPS)):
        source = next(broker for broker in brokers if broker.broker_id == bundle.owner)
        # The group crowds together, everything else goes anywhere.
        destination = brokers[-1] if bundle.namespace in GROUPS else chance.choice(brokers)
        steps.append(
            small_plan.step(
                order=order,
                wave=order // 10,
                bundle=bundle.bundle,
                source=source.broker_id,
                source_incarnation=source.incarnation,
                destination=destination.broker_id,
                destination_incarnation=destination.incarnation,
            )
        )
    return steps


def whole_columns(brokers: list[Broker], bundles: list[Bundle], steps: list[Step]) -> BundleColumns:
    """All bundles as the planner would get them: system namespaces use cpu, but count no further."""
    place = {broker.broker_id: row for row, broker in enumerate(brokers)}
    rates = [round((b.msg_rate_in_per_s + b.msg_rate_out_per_s) * 1000) for b in bundles]
    cpu = share_cpu(rates, [place[str(b.owner)] for b in bundles], [b.cpu_usage_percent for b in brokers])
    named = {step.bundle for step in steps}
    rows = [n for n, b in enumerate(bundles) if b.namespace != "pulsar/system" or b.bundle in named]
    return BundleColumns(
        bundle=[bundles[n].bundle for n in rows],  # type: ignore[arg-type]
        namespace=[bundles[n].namespace for n in rows],  # type: ignore[arg-type]
        owner=[bundles[n].owner for n in rows],  # type: ignore[arg-type]
        version_id=[bundles[n].version_id for n in rows],  # type: ignore[arg-type]
        topics=[bundles[n].topics for n in rows],  # type: ignore[arg-type]
        sessions=[bundles[n].producers + bundles[n].consumers for n in rows],  # type: ignore[arg-type]
        msg_rate_millis=[rates[n] for n in rows],  # type: ignore[arg-type]
        throughput_in=[round(bundles[n].throughput_in_bytes_per_s) for n in rows],  # type: ignore[arg-type]
        throughput_out=[round(bundles[n].throughput_out_bytes_per_s) for n in rows],  # type: ignore[arg-type]
        cpu_millipercent=cpu[rows],
    )


@pytest.mark.parametrize("where", ["Spark", "driver"])
def test_summary_leads_to_the_same_violations_as_all_bundles(spark: SparkSession, where: str) -> None:
    chance = random.Random(SEED)
    brokers, bundles = cluster(chance)
    steps = random_steps(chance, brokers, bundles)
    policies = Policies(anti_affinity=GROUPS)
    tables = small_cluster.tables(brokers, bundles)
    loads: ClusterLoads = DriverLoads.of_snapshot(tables["bundles"], None, tables["topics"], brokers, (), SETTINGS)
    if where == "Spark":
        rates = frame_of(spark, Bundle, bundles).transform(judged_rates, None, (), SETTINGS)
        loads = SparkLoads(rates.transform(planning_loads, brokers, SETTINGS), frame_of(spark, Topic, []))
    snapshot = JudgedSnapshot(brokers, policies, loads)
    summary = PlacedLoads.collect(snapshot, steps).find_violations(steps, snapshot, SETTINGS)
    expected = find_violations(steps, brokers, whole_columns(brokers, bundles, steps), policies, SETTINGS)
    assert summary == expected
    assert {"overload", "anti-affinity", "system-namespace", "not-active"} <= {violation.rule for violation in summary}
