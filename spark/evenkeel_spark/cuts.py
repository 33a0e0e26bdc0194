"""Where to cut bundles in two: Spark reads the topics of these bundles only, and one row a bundle comes back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructField, StructType

from evenkeel.model.bundles import BundleName
from evenkeel.model.plan import Step
from evenkeel.planning.rules.units import can_be_cut
from evenkeel.planning.splitting.boundaries import NO_TOPICS, Cut, CutBasis, TopicColumns, cut_at, find_cut
from evenkeel_spark.transforms.units import with_integer_loads

_CUTS = StructType(
    [StructField("bundle", StringType())]
    + [StructField(f.name, StringType() if f.name == "boundary_by" else LongType()) for f in fields(Cut)]
)
_TOPIC_COLUMNS = tuple(field.name for field in fields(TopicColumns))


def find_cuts(topics: DataFrame, bundles: Iterable[str]) -> dict[str, Cut]:
    """The best cut of each bundle that can be cut at all; `topics` is the table of a snapshot."""
    return _cut_all(topics, dict.fromkeys(bundles))


def cuts_of(topics: DataFrame, steps: Iterable[Step]) -> dict[str, Cut]:
    """What the topics say of the cuts of a plan's splits, whatever the plan itself says of them."""
    return _cut_all(topics, {step.bundle: step.split_boundary for step in steps if can_be_cut(step)})


def _cut_all(topics: DataFrame, boundaries: Mapping[str, int | None]) -> dict[str, Cut]:
    """The cut of each bundle at its boundary, or the best one where none is given."""
    if not boundaries:
        return {}
    names = sorted(boundaries)
    columns = {
        "bundle": pa.array(names, pa.string()),
        "boundary": pa.array([boundaries[name] for name in names], pa.int64()),
    }
    wanted = topics.sparkSession.createDataFrame(pa.table(columns))
    cuts = (
        topics.join(F.broadcast(wanted), on="bundle", how="inner")
        .transform(with_integer_loads)
        .withColumn("sessions", F.col("producers") + F.col("consumers"))
        .select("bundle", "boundary", *_TOPIC_COLUMNS)
        .groupBy("bundle")
        .applyInArrow(_cut_bundle, _CUTS)
    )
    found: dict[str, Cut] = {}
    for row in cuts.toArrow().to_pylist():
        name = row.pop("bundle")
        found[name] = Cut(**row | {"boundary_by": CutBasis(row["boundary_by"])})
    unknown = {name: _cut(name, NO_TOPICS, boundaries[name]) for name in names if name not in found}
    return found | {name: cut for name, cut in unknown.items() if cut is not None}


def _cut_bundle(group: pa.Table) -> pa.Table:
    """Cut one bundle, given its topics."""
    name = group["bundle"][0].as_py()
    topics = TopicColumns(**{column: group[column].to_numpy() for column in _TOPIC_COLUMNS})
    cut = _cut(name, topics, group["boundary"][0].as_py())
    rows = [] if cut is None else [{"bundle": name, **asdict(cut)}]
    return pa.Table.from_pylist(rows, schema=_ARROW_CUTS)


def _cut(bundle: str, topics: TopicColumns, boundary: int | None) -> Cut | None:
    its_range = BundleName.parse(bundle).range
    return find_cut(its_range, topics) if boundary is None else cut_at(its_range, topics, boundary)


_ARROW_CUTS = pa.schema(
    [pa.field(f.name, pa.string() if isinstance(f.dataType, StringType) else pa.int64()) for f in _CUTS]
)
