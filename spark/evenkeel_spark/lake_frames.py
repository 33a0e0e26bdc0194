"""Tables of the lake as Spark frames: their schemas, from the one declaration that each has, and how they are read.

Readers never list folders of data: a snapshot's manifest names its files, and so does that of a table that Spark wrote.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from evenkeel.adapters.lake.learnt import CalibrationStore
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.load import BundleProfile, CpuCalibration, HourlyPeak
from evenkeel.model.snapshot import SNAPSHOT_TABLES, Bundle, SnapshotManifest
from evenkeel.model.tables import columns_of
from evenkeel_spark.artifacts import PROFILES, FrameStore, spark_path
from evenkeel_spark.history import History
from evenkeel_spark.transforms.planning_loads import LoadTables

_SPARK_TYPES: Mapping[type, DataType] = {
    str: StringType(),
    int: LongType(),
    float: DoubleType(),
    bool: BooleanType(),
    datetime: TimestampType(),
}
_SNAPSHOT_KEYS = StructType(
    [
        StructField("file_name", StringType(), False),
        StructField("snapshot_id", StringType(), False),
        StructField("taken_at", TimestampType(), False),
        StructField("snapshots_ago", IntegerType(), False),
    ]
)


def spark_schema(table: type) -> StructType:
    """The Spark schema of a table's dataclass, each field with its comment."""
    return StructType(
        [StructField(c.name, _SPARK_TYPES[c.type], c.nullable, {"comment": c.comment}) for c in columns_of(table)]
    )


def select_table(frame: DataFrame, table: type) -> DataFrame:
    """Exactly the columns of a table, in its order and types, with its comments: the contract that ends a transform."""
    fields = spark_schema(table).fields
    return frame.select(*(F.col(f.name).cast(f.dataType).alias(f.name, metadata=f.metadata) for f in fields))


def read_snapshot_table(spark: SparkSession, lake: Lake, manifest: SnapshotManifest, name: str) -> DataFrame:
    """A table of one snapshot, whose bytes are those that the manifest names when Spark begins to read them."""
    SnapshotStore(lake).require_intact(manifest, name)
    table = SNAPSHOT_TABLES[name]
    return _read_files(spark, lake, [manifest.tables[name].path], table).transform(select_table, table)


def read_bundle_history(spark: SparkSession, lake: Lake, history: History) -> DataFrame:
    """The bundles of all snapshots of a history, each row with its snapshot and how many snapshots ago it was."""
    # The newest snapshot is what is planned; that no older one was changed is not proved, which would mean to read all.
    SnapshotStore(lake).require_intact(history.now, "bundles")
    files = [manifest.tables["bundles"].path for manifest in history.manifests]
    keys = spark.createDataFrame(
        [
            (path.rpartition("/")[2], manifest.snapshot_id, manifest.taken_at, ago)
            for ago, (path, manifest) in enumerate(zip(files, history.manifests, strict=True))
        ],
        _SNAPSHOT_KEYS,
    )
    bundles = _read_files(spark, lake, files, Bundle)
    return (
        bundles.select("*", F.col("_metadata.file_name").alias("file_name"))
        .join(F.broadcast(keys), on="file_name", how="inner")
        .select("snapshot_id", "taken_at", "snapshots_ago", *spark_schema(Bundle).fieldNames())
    )


def read_snapshots(spark: SparkSession, lake: Lake, manifests: Sequence[SnapshotManifest], name: str) -> DataFrame:
    """A table of many snapshots, each row with its snapshot's id and time; nothing proves that none was changed."""
    files = [manifest.tables[name].path for manifest in manifests]
    keys = spark.createDataFrame(
        [
            (path.rpartition("/")[2], manifest.snapshot_id, manifest.taken_at, 0)
            for path, manifest in zip(files, manifests, strict=True)
        ],
        _SNAPSHOT_KEYS,
    )
    table = SNAPSHOT_TABLES[name]
    return (
        _read_files(spark, lake, files, table)
        .select("*", F.col("_metadata.file_name").alias("file_name"))
        .join(F.broadcast(keys), on="file_name", how="inner")
        .select("snapshot_id", "taken_at", *spark_schema(table).fieldNames())
    )


def read_cpu_calibration(spark: SparkSession, lake: Lake, cluster: str, calibration_id: str | None) -> DataFrame | None:
    """A cpu calibration of a cluster; None where there is none."""
    if calibration_id is None:
        return None
    path = CalibrationStore.path_of(cluster, calibration_id)
    return _read_files(spark, lake, [path], CpuCalibration).transform(select_table, CpuCalibration)


def read_load_tables(spark: SparkSession, lake: Lake, profile_id: str) -> LoadTables:
    """The tables of a committed load profile."""
    return LoadTables(
        bundle_profiles=read_frame(spark, lake, PROFILES, profile_id, "bundle_profiles", BundleProfile),
        hourly_peaks=read_frame(spark, lake, PROFILES, profile_id, "hourly_peaks", HourlyPeak),
    )


def read_frame(spark: SparkSession, lake: Lake, kind: str, frame_id: str, name: str, table: type) -> DataFrame:
    """A table that Spark wrote."""
    files = FrameStore(lake, kind).files(frame_id, name)
    return _read_files(spark, lake, files.paths, table).transform(select_table, table)


def _read_files(spark: SparkSession, lake: Lake, paths: Sequence[str], table: type) -> DataFrame:
    for path in paths:
        if not lake.exists(path):
            raise InputError(f"{lake.uri_of(path)} is gone, but a manifest names it", "restore it or start a new lake")
    return spark.read.schema(spark_schema(table)).parquet(*_as_read_paths(lake, paths))


def _as_read_paths(lake: Lake, paths: Sequence[str]) -> list[str]:
    """Paths as Spark's readers take them: they see patterns, so what would be one is escaped."""
    return [re.sub(r"([\\{}\[\]*?])", r"\\\1", spark_path(lake, path)) for path in paths]
