"""Predicted against realised: the error of every broker in three parts that add up."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta

from pyspark.sql import SparkSession

from evenkeel import __version__
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.auditing.comparisons import find_comparisons
from evenkeel.auditing.figures import measure_predictions
from evenkeel.model.audit import LoadPrediction
from evenkeel.model.plan import BrokerBalance, Step
from evenkeel.model.run import RunRecord, RunState, StepResult, StepState
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker, Bundle
from evenkeel.model.timestamps import format_time
from evenkeel.planning.problem.loads import loads_now
from evenkeel_spark.audits import compare_runs
from support.lakes import CLUSTER, TAKEN_AT, make_broker, make_bundle, write_snapshot
from support.plans import make_step, store_plan

NAMES = ("b1:8080", "b2:8080", "b3:8080")
RANGES = ("0x00000000_0x40000000", "0x40000000_0x80000000", "0x80000000_0xc0000000", "0xc0000000_0xffffffff")
ENDED_AT = TAKEN_AT + timedelta(minutes=10)


def make_bundles(seed: int) -> list[Bundle]:
    source = random.Random(seed)
    return [
        make_bundle(
            f"acme/{subject}/{part}",
            source.choice(NAMES),
            msg_rate_in_per_s=source.uniform(10.0, 900.0),
            msg_rate_out_per_s=source.uniform(0.0, 900.0),
            throughput_in_bytes_per_s=source.uniform(1e4, 1e6),
            throughput_out_bytes_per_s=source.uniform(1e4, 1e6),
        )
        for subject in ("orders", "clicks", "audit")
        for part in RANGES
    ]


def predict(bundles: Sequence[Bundle], brokers: Sequence[Broker], owners: Mapping[str, str]) -> list[BrokerBalance]:
    """The table `brokers` of a plan after which these are the owners."""
    columns = loads_now(bundles, brokers, Settings())
    loads = dict(zip(columns.bundle.tolist(), columns.loads().tolist(), strict=True))
    rows = []
    for broker in brokers:
        for place, resource in enumerate(("cpu", "bandwidth_in", "bandwidth_out")):
            before = sum(loads[b.bundle][place] for b in bundles if b.owner == broker.broker_id)
            after = sum(loads[b.bundle][place] for b in bundles if owners[b.bundle] == broker.broker_id)
            rows.append(BrokerBalance(broker.broker_id, "pool", resource, 800_000, before, after, 0))
    return rows


def store_run(
    lake: Lake, plan_id: str, steps: Sequence[Step], ended_at: datetime = ENDED_AT, epoch: int = 1
) -> RunRecord:
    results = [
        StepResult(step.order, step.bundle, step.source, step.destination, StepState.SETTLED, "", 0.2) for step in steps
    ]
    started_at = format_time(ended_at - timedelta(minutes=5))
    run = RunRecord(
        f"{plan_id[:12]}-{epoch:06d}", plan_id, CLUSTER, epoch, RunState.DONE, started_at, format_time(ended_at), False,
        tuple(results), "", __version__,
    )  # fmt: skip
    RunStore(lake).write(run)
    return run


def compare(
    spark: SparkSession, lake: Lake, after: Sequence[Bundle], brokers: Sequence[Broker], before: Sequence[Bundle]
) -> list[LoadPrediction]:
    """Plan to move the first three bundles, then compare with what is found 15 minutes after the run."""
    planned = [make_broker(name, cpu_usage_percent=300.0) for name in NAMES]
    manifest = write_snapshot(lake, before, planned)
    incarnations: dict[str, int | None] = dict.fromkeys(NAMES, 1)
    steps = [
        make_step(order, bundle, NAMES[(NAMES.index(bundle.owner or "") + 1) % 3], incarnations)
        for order, bundle in enumerate(before[:3])
    ]
    owners = {b.bundle: b.owner or "" for b in before} | {s.bundle: s.destination or "" for s in steps}
    plan_id = store_plan(lake, manifest, steps, balances=predict(before, planned, owners))
    run = store_run(lake, plan_id, steps)
    later = ENDED_AT + timedelta(minutes=15)
    fresh = [dataclasses.replace(b, reported_at=later) if b.reported_at == TAKEN_AT else b for b in brokers]
    manifests = [manifest, write_snapshot(lake, after, fresh, taken_at=later)]
    comparisons = find_comparisons([run], manifests, later + timedelta(hours=2))
    assert [c.note for c in comparisons] == ["", "no snapshot within 20 min of that time"]
    compared = compare_runs(spark, lake, CLUSTER, comparisons)
    assert compared.problems == {}
    return list(compared.predictions)


def moved(bundles: Sequence[Bundle], count: int) -> list[Bundle]:
    """The first bundles with the next broker as their owner."""
    return [
        dataclasses.replace(b, owner=NAMES[(NAMES.index(b.owner or "") + 1) % 3]) if place < count else b
        for place, b in enumerate(bundles)
    ]


def test_prediction_that_came_true_has_no_error(spark: SparkSession, lake: Lake) -> None:
    bundles = make_bundles(1)
    planned = [make_broker(name, cpu_usage_percent=300.0) for name in NAMES]
    owners = {b.bundle: b.owner or "" for b in moved(bundles, 3)}
    cpu = {row.broker_id: row.used_after for row in predict(bundles, planned, owners) if row.resource == "cpu"}
    brokers = [make_broker(name, cpu_usage_percent=cpu[name] / 1000) for name in NAMES]
    rows = compare(spark, lake, moved(bundles, 3), brokers, bundles)
    assert len(rows) == 9
    for row in rows:
        assert row.realised is not None
        parts = (row.placement_error, row.load_error, row.cpu_model_error)
        assert (row.realised, *parts) == (row.predicted, 0, 0, 0)


def test_move_that_was_not_done_is_an_error_of_placement_alone(spark: SparkSession, lake: Lake) -> None:
    bundles = make_bundles(2)
    rows = compare(spark, lake, moved(bundles, 2), [make_broker(name) for name in NAMES], bundles)
    traffic = [row for row in rows if row.resource == "bandwidth_in"]
    left_behind = round(bundles[2].throughput_in_bytes_per_s)
    assert sorted(row.placement_error or 0 for row in traffic) == [-left_behind, 0, left_behind]
    assert all(row.load_error == 0 and row.cpu_model_error == 0 for row in traffic)


def test_parts_of_the_error_add_up_for_any_change_of_the_cluster(spark: SparkSession, lake: Lake) -> None:
    for seed in range(2):
        print(f"seed {seed}")
        source = random.Random(seed)
        before = make_bundles(seed)
        after = [
            dataclasses.replace(
                b,
                owner=source.choice([*NAMES, b.owner, b.owner, None]),
                msg_rate_in_per_s=b.msg_rate_in_per_s * source.uniform(0.0, 3.0),
                throughput_in_bytes_per_s=b.throughput_in_bytes_per_s * source.uniform(0.0, 3.0),
            )
            for b in before[1:]
        ]
        # The first bundle was split, a namespace is new, and one broker reported nothing.
        lower, upper = ("acme/orders/0x00000000_0x20000000", "acme/orders/0x20000000_0x40000000")
        after += [make_bundle(name, source.choice(NAMES), msg_rate_in_per_s=50.0) for name in (lower, upper)]
        after.append(make_bundle("acme/new/0x00000000_0xffffffff", NAMES[0], msg_rate_in_per_s=70.0))
        brokers = [make_broker(name, cpu_usage_percent=source.uniform(1.0, 790.0)) for name in NAMES[:2]]
        brokers.append(make_broker(NAMES[2], reported_at=TAKEN_AT - timedelta(minutes=1)))
        rows = compare(spark, Lake(f"{lake.uri}/{seed}"), after, brokers, before)
        silent = [row for row in rows if row.realised is None]
        assert {row.broker_id for row in silent} == {NAMES[2]}
        assert all(row.placement_error is row.load_error is row.cpu_model_error is None for row in silent)
        for row in rows:
            if row.realised is not None:
                parts = (row.placement_error or 0) + (row.load_error or 0) + (row.cpu_model_error or 0)
                assert row.realised - row.predicted == parts


def test_split_bundle_that_stays_is_no_error_of_placement(spark: SparkSession, lake: Lake) -> None:
    before = make_bundles(5)
    after = moved(before, 3)
    parent = after.pop(5)
    for part, share in (("0x40000000_0x60000000", 0.25), ("0x60000000_0x80000000", 0.75)):
        child = make_bundle(f"{parent.namespace}/{part}", parent.owner)
        after.append(
            dataclasses.replace(
                child,
                msg_rate_in_per_s=parent.msg_rate_in_per_s * share,
                msg_rate_out_per_s=parent.msg_rate_out_per_s * share,
                throughput_in_bytes_per_s=parent.throughput_in_bytes_per_s * share,
            )
        )
    assert parent.bundle.endswith(RANGES[1])
    rows = compare(spark, lake, after, [make_broker(name) for name in NAMES], before)
    assert max(abs(row.placement_error or 0) for row in rows) <= 1


def test_figures_tell_bias_and_errors_against_the_naive_prediction(spark: SparkSession, lake: Lake) -> None:
    bundles = make_bundles(3)
    rows = compare(
        spark, lake, moved(bundles, 3), [make_broker(name, cpu_usage_percent=330.0) for name in NAMES], bundles
    )
    run = RunStore(lake).records(CLUSTER)[0]
    comparisons = find_comparisons([run], [], ENDED_AT + timedelta(minutes=1))
    figures = {(row.horizon_s, row.resource): row for row in measure_predictions(comparisons, rows, 0.05)}
    cpu = figures[900, "cpu"]
    realised, predicted = 990_000, sum(row.predicted for row in rows if row.resource == "cpu")
    assert cpu.bias_ratio is not None
    assert abs(cpu.bias_ratio - (realised - predicted) / realised) < 1e-9
    assert figures[3600, "cpu"].note == "the run ended less than 60 min ago"
    assert figures[900, "bandwidth_in"].mase == 0.0
