"""Read what manifests name, and write what a manifest then commits.

Folders of data are never listed by a reader: a snapshot's manifest names its files, and so does the manifest of
a frame that Spark wrote. A writer that dies leaves files that no manifest names, and nobody sees them.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, StringType, StructField, StructType, TimestampType

from evenkeel import __version__
from evenkeel.adapters.calibrations import CalibrationStore
from evenkeel.adapters.lake import Lake
from evenkeel.model.artifacts import check_schema_version
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.load import CpuCalibration
from evenkeel.model.snapshot import SNAPSHOT_TABLES, Bundle, SnapshotManifest
from evenkeel_spark.history import History
from evenkeel_spark.schemas import select_table, spark_schema

FRAME_SCHEMA_VERSION = 1

_SNAPSHOT_KEYS = StructType(
    [
        StructField("file_name", StringType(), False),
        StructField("snapshot_id", StringType(), False),
        StructField("taken_at", TimestampType(), False),
        StructField("snapshots_ago", IntegerType(), False),
    ]
)


@dataclass(frozen=True, slots=True)
class FrameFiles:
    """The files that a committed table consists of, and how many rows they hold together."""

    paths: tuple[str, ...]
    rows: int


@dataclass(frozen=True, slots=True)
class FrameManifest:
    """What commits tables that Spark wrote."""

    kind: str
    id: str
    tables: Mapping[str, FrameFiles]
    library_version: str
    schema_version: int = FRAME_SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> FrameManifest:
        check_schema_version(fields, FRAME_SCHEMA_VERSION, uri)
        try:
            tables = {
                name: FrameFiles(tuple(files["paths"]), int(files["rows"])) for name, files in fields["tables"].items()
            }
            return cls(fields["kind"], fields["id"], tables, fields["library_version"])
        except (AttributeError, KeyError, TypeError) as error:
            raise InputError(f"{uri} is not a manifest ({error!r})", "make a new request and run its jobs") from error


class FrameStore:
    """Tables of one kind (`profiles`, `candidates`) that Spark wrote into a lake, each set under its id."""

    def __init__(self, lake: Lake, kind: str) -> None:
        self._lake = lake
        self._kind = kind

    def uri_of(self, frame_id: str) -> str:
        return self._lake.uri_of(self._manifest_path(frame_id))

    def find(self, frame_id: str) -> FrameManifest | None:
        """The manifest of a committed set of tables; None where nobody has committed it."""
        path = self._manifest_path(frame_id)
        if not self._lake.exists(path):
            return None
        manifest = FrameManifest.from_json(self._lake.read_json(path), self._lake.uri_of(path))
        if (manifest.kind, manifest.id) != (self._kind, frame_id):
            raise InputError(f"{self._lake.uri_of(path)} does not match its id", "make a new request and run its jobs")
        return manifest

    def write(self, frame_id: str, frames: Mapping[str, DataFrame]) -> FrameManifest:
        """Write the tables to a fresh prefix, then commit them; whoever commits first wins."""
        prefix = f"{self._kind}/data/{frame_id}/{uuid.uuid4().hex}"
        tables = {name: self._write_table(f"{prefix}/{name}", frame) for name, frame in frames.items()}
        manifest = FrameManifest(self._kind, frame_id, tables, __version__)
        try:
            self._lake.put_json(self._manifest_path(frame_id), manifest.to_json())
        except RefusedError:
            # Another run of the same work was quicker. The id stands for the input, so its tables are as good.
            winner = self.find(frame_id)
            if winner is None:
                raise
            return winner
        return manifest

    def read(self, spark: SparkSession, frame_id: str, name: str, table: type) -> DataFrame:
        """A committed table."""
        manifest = self.find(frame_id)
        if manifest is None or name not in manifest.tables:
            raise InputError(f"{self.uri_of(frame_id)} holds no table {name!r}", "run the job that makes it")
        return _read_files(spark, self._lake, manifest.tables[name].paths, table).transform(select_table, table)

    def _write_table(self, folder: str, frame: DataFrame) -> FrameFiles:
        frame.write.parquet(spark_path(self._lake, folder), mode="errorifexists", compression="zstd")
        names = [name for name in self._lake.names(folder) if name.endswith(".parquet")]
        paths = tuple(f"{folder}/{name}" for name in names)
        written = frame.sparkSession.read.schema(frame.schema).parquet(*_as_read_paths(self._lake, paths))
        return FrameFiles(paths, written.count())

    def _manifest_path(self, frame_id: str) -> str:
        return f"{self._kind}/manifests/{frame_id}.json"


def read_snapshot_table(spark: SparkSession, lake: Lake, manifest: SnapshotManifest, name: str) -> DataFrame:
    """A table of one snapshot."""
    table = SNAPSHOT_TABLES[name]
    return _read_files(spark, lake, [manifest.tables[name].path], table).transform(select_table, table)


def read_bundle_history(spark: SparkSession, lake: Lake, history: History) -> DataFrame:
    """The bundles of all snapshots of a history, each row with its snapshot and how many snapshots ago it was."""
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


def read_cpu_calibration(spark: SparkSession, lake: Lake, cluster: str, calibration_id: str | None) -> DataFrame | None:
    """A cpu calibration of a cluster; None where there is none."""
    if calibration_id is None:
        return None
    path = CalibrationStore.path_of(cluster, calibration_id)
    return _read_files(spark, lake, [path], CpuCalibration).transform(select_table, CpuCalibration)


def spark_path(lake: Lake, path: str) -> str:
    """A path of the lake as Hadoop wants it: unlike a URI, without percent escapes."""
    return f"{unquote(lake.uri)}/{path}"


def _read_files(spark: SparkSession, lake: Lake, paths: Sequence[str], table: type) -> DataFrame:
    for path in paths:
        if not lake.exists(path):
            raise InputError(f"{lake.uri_of(path)} is gone, but a manifest names it", "restore it or start a new lake")
    return spark.read.schema(spark_schema(table)).parquet(*_as_read_paths(lake, paths))


def _as_read_paths(lake: Lake, paths: Sequence[str]) -> list[str]:
    """Paths as Spark's readers take them: they see patterns, so what would be one is escaped."""
    return [re.sub(r"([\\{}\[\]*?])", r"\\\1", spark_path(lake, path)) for path in paths]
