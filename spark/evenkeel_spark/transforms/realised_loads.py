"""What brokers carry some time after a run against what the plan predicted, with the error in three parts.

All figures are integers, so that for every broker and resource

    realised − predicted  =  placement error  +  load error  +  cpu model error

holds to the last unit. With the load that the plan knew of each bundle:

- placement: that load, summed over the bundles that the broker really has, less the prediction
- load: what those bundles carry now, less that; cpu grows in proportion to a bundle's messages
- cpu model: the measured cpu less that; traffic is the sum of the bundles, so it has no such part

A bundle that was split after the plan's snapshot is compared with the part of its parent that its traffic makes up.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from evenkeel.model.audit import LoadPrediction
from evenkeel.model.load import Resource
from evenkeel_spark.lake_frames import select_table
from evenkeel_spark.transforms.columns import is_system, with_integer_loads

COMPARISON_COLUMNS = ("run_id", "plan_id", "horizon_s", "snapshot_id")
_PLANNED = ("cpu_planned", "throughput_in_planned", "throughput_out_planned")
_NOW = ("cpu_now", "throughput_in_now", "throughput_out_now")
_KEYS = ("run_id", "horizon_s")


def known_bundles(loads: DataFrame, bundles: DataFrame, plan_id: str) -> DataFrame:
    """The load of each bundle as a plan knew it (`planning_loads`), with its range from the plan's snapshot."""
    ranges = bundles.select("bundle", "range_lower", "range_upper")
    return loads.join(ranges, on="bundle", how="inner").select(
        F.lit(plan_id).alias("plan_id"),
        "bundle",
        "namespace",
        "range_lower",
        "range_upper",
        F.col("msg_rate_millis").alias("msg_rate_planned"),
        F.col("cpu_millipercent").alias("cpu_planned"),
        F.col("throughput_in").alias("throughput_in_planned"),
        F.col("throughput_out").alias("throughput_out_planned"),
    )


def carried_loads(comparisons: DataFrame, known: DataFrame, bundles: DataFrame) -> DataFrame:
    """What each broker carries in each comparison: by the plan's figures (`…_planned`), and now (`…_now`).

    `comparisons` has COMPARISON_COLUMNS, `known` is of `known_bundles`, `bundles` are those of the snapshots that are
    compared.
    """
    is_counted = F.col("owner").isNotNull() & ~is_system(F.col("namespace"))
    present = (
        bundles.where(is_counted)
        .transform(with_integer_loads)
        .join(F.broadcast(comparisons), on="snapshot_id", how="inner")
        .select(
            *COMPARISON_COLUMNS,
            "bundle",
            "namespace",
            "owner",
            F.col("range_lower").alias("lower"),
            F.col("range_upper").alias("upper"),
            F.col("msg_rate_millis").alias("msg_rate_now"),
            F.col("throughput_in").alias("throughput_in_now"),
            F.col("throughput_out").alias("throughput_out_now"),
        )
    )
    whole = present.join(known.drop("namespace"), on=["plan_id", "bundle"], how="inner")
    parts = present.transform(_parts_of_known, known)
    seen = whole.select("run_id", "horizon_s", "bundle").unionByName(parts.select("run_id", "horizon_s", "bundle"))
    new = present.join(seen, on=["run_id", "horizon_s", "bundle"], how="left_anti")
    loads = whole.unionByName(parts, allowMissingColumns=True).unionByName(new, allowMissingColumns=True)
    return (
        loads.fillna(0, ["msg_rate_planned", *_PLANNED])
        .transform(_with_cpu_now, known)
        .groupBy(*_KEYS, F.col("owner").alias("broker_id"))
        .agg(*(F.sum(name).cast("long").alias(name) for name in (*_PLANNED, *_NOW)))
    )


def load_predictions(predicted: DataFrame, measured: DataFrame, carried: DataFrame) -> DataFrame:
    """The table `predictions`.

    `predicted` has the comparison's columns and those of a plan's table `brokers`. `measured` has run_id, horizon_s,
    broker_id, cpu_measured (null: unknown) and the measured traffic to count instead of the bundles' sum (null: none);
    brokers that did not report are not in it.
    """
    resource = F.col("resource")
    joined = (
        predicted.join(F.broadcast(measured.withColumn("has_reported", F.lit(True))), [*_KEYS, "broker_id"], "left")
        .join(carried, on=[*_KEYS, "broker_id"], how="left")
        .fillna(0, [*_PLANNED, *_NOW])
    )
    planned, now = _by_resource(resource, *_PLANNED), _by_resource(resource, *_NOW)
    traffic = [
        F.greatest(F.col(f"{name}_now"), F.col(f"{name}_measured")) for name in ("throughput_in", "throughput_out")
    ]
    realised = F.when(F.col("has_reported"), _by_resource(resource, F.col("cpu_measured"), *traffic))
    is_cpu = resource == Resource.CPU
    changed = F.when(is_cpu, now).otherwise(F.col("realised")) - planned
    return (
        joined.withColumn("realised", realised)
        .withColumns(
            {
                "before": F.col("used_before"),
                "predicted": F.col("used_after"),
                "placement_error": F.when(F.col("realised").isNotNull(), planned - F.col("used_after")),
                "load_error": F.when(F.col("realised").isNotNull(), changed),
                "cpu_model_error": F.when(is_cpu, F.col("realised") - now).otherwise(F.col("realised") * 0),
            }
        )
        .transform(select_table, LoadPrediction)
    )


def _parts_of_known(present: DataFrame, known: DataFrame) -> DataFrame:
    """Bundles that are a part of one that the plan knew, with their part of its load by messages, else by range."""
    unmatched = present.join(known.select("plan_id", "bundle"), on=["plan_id", "bundle"], how="left_anti")
    parents = known.select(
        "plan_id",
        "namespace",
        F.col("bundle").alias("parent"),
        "range_lower",
        "range_upper",
        "msg_rate_planned",
        *_PLANNED,
    )
    is_inside = (F.col("lower") >= F.col("range_lower")) & (F.col("upper") <= F.col("range_upper"))
    parts = unmatched.join(parents, on=["plan_id", "namespace"], how="inner").where(is_inside)
    totals = parts.groupBy(*_KEYS, "parent").agg(
        F.sum("msg_rate_now").alias("messages"), F.sum(F.col("upper") - F.col("lower")).alias("hashes")
    )
    by_messages = F.col("messages") > 0
    part = F.when(by_messages, F.col("msg_rate_now")).otherwise(F.col("upper") - F.col("lower"))
    total = F.when(by_messages, F.col("messages")).otherwise(F.col("hashes"))
    shared = {name: _in_proportion(F.col(name), part, total) for name in ("msg_rate_planned", *_PLANNED)}
    return (
        parts.join(totals, on=[*_KEYS, "parent"], how="inner").withColumns(shared).drop("messages", "hashes", "parent")
    )


def _with_cpu_now(loads: DataFrame, known: DataFrame) -> DataFrame:
    """Add the cpu of each bundle by the plan's cost of its messages; the average cost where the plan saw none."""
    average = known.groupBy("plan_id").agg(
        F.sum("cpu_planned").alias("all_cpu"), F.sum("msg_rate_planned").alias("all_messages")
    )
    has_cost = F.col("msg_rate_planned") > 0
    messages = F.when(has_cost, F.col("msg_rate_planned")).otherwise(F.greatest(F.col("all_messages"), F.lit(1)))
    cpu = F.when(has_cost, F.col("cpu_planned")).otherwise(F.col("all_cpu"))
    return loads.join(F.broadcast(average), on="plan_id", how="left").withColumn(
        "cpu_now", F.coalesce(_in_proportion(cpu, F.col("msg_rate_now"), messages), F.lit(0))
    )


def _by_resource(
    resource: Column, cpu: Column | str, bandwidth_in: Column | str, bandwidth_out: Column | str
) -> Column:
    chosen = [F.col(each) if isinstance(each, str) else each for each in (cpu, bandwidth_in, bandwidth_out)]
    return (
        F.when(resource == Resource.CPU, chosen[0])
        .when(resource == Resource.BANDWIDTH_IN, chosen[1])
        .when(resource == Resource.BANDWIDTH_OUT, chosen[2])
    )


def _in_proportion(whole: Column, part: Column, total: Column) -> Column:
    """`whole` × `part` ÷ `total`, rounded to the nearest by integers alone."""
    # The product of two rates in bytes outgrows 64 bits.
    product = 2 * whole.cast("decimal(18,0)") * part.cast("decimal(18,0)")
    return F.call_function("div", product + total, 2 * total).cast("long")
