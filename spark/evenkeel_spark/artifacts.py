"""Tables that the jobs leave in the lake, and the ids that stand for what went into them.

The same snapshots, settings and schemas give the same id, so a second run finds the first one's tables. A manifest
names a table's files. A writer that dies leaves files that no manifest names, and nobody reads them. Importing this
module imports no Spark.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from evenkeel import __version__
from evenkeel.adapters.lake.store import Lake, to_parquet
from evenkeel.model.canonical import digest
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.outside_json import check_schema_version
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import SNAPSHOT_SCHEMA_VERSION
from evenkeel_spark.history import History

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

FRAME_SCHEMA_VERSION = 1
PROFILES = "profiles"
CANDIDATES = "candidates"

# Raised whenever the meaning of a table's figures changes; ids then change with it.
PROFILES_VERSION = 2
CANDIDATES_VERSION = 2

_SPLIT_SETTINGS = (
    "namespace_bundle_max_topics",
    "namespace_bundle_max_sessions",
    "namespace_bundle_max_msg_rate",
    "namespace_bundle_max_bandwidth_mbytes",
    "namespace_bundle_split_condition_hit_count_threshold",
    "max_number_of_bundles_to_split_per_cycle",
    "namespace_maximum_bundles",
    "shedding_excluded_namespaces",
)


def profile_id(history: History, calibration_id: str | None) -> str:
    """The id of the load profiles of a history, with the cpu weights of a calibration."""
    kind = {"kind": PROFILES, "version": PROFILES_VERSION, "cpu_calibration": calibration_id}
    return digest(kind | _inputs(history))


def candidates_id(history: History, settings: Settings) -> str:
    """The id of the split candidates that a history has by some settings."""
    thresholds = {name: getattr(settings, name) for name in _SPLIT_SETTINGS}
    return digest({"kind": CANDIDATES, "version": CANDIDATES_VERSION, "settings": thresholds} | _inputs(history))


def _inputs(history: History) -> dict[str, object]:
    return {
        "cluster": history.now.cluster,
        "snapshots": history.snapshot_ids,
        "schema_versions": {"snapshot": SNAPSHOT_SCHEMA_VERSION, "frame": FRAME_SCHEMA_VERSION},
    }


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

    def write(self, frame_id: str, frames: Mapping[str, DataFrame | pa.Table]) -> FrameManifest:
        """Write the tables to a fresh prefix, then commit them; whoever commits first wins.

        Spark writes its frames; a table that this process holds needs no Spark job.
        """
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

    def files(self, frame_id: str, name: str) -> FrameFiles:
        """The files of a committed table."""
        manifest = self.find(frame_id)
        if manifest is None or name not in manifest.tables:
            raise InputError(f"{self.uri_of(frame_id)} holds no table {name!r}", "run the job that makes it")
        return manifest.tables[name]

    def read_table(self, frame_id: str, name: str) -> pa.Table:
        """A committed table, held by this process."""
        return pa.concat_tables([self._lake.read_table(path) for path in self.files(frame_id, name).paths])

    def _write_table(self, folder: str, frame: DataFrame | pa.Table) -> FrameFiles:
        if isinstance(frame, pa.Table):
            path = f"{folder}/part-00000.parquet"
            self._lake.put_if_absent(path, to_parquet(frame))
            return FrameFiles((path,), frame.num_rows)
        frame.write.parquet(spark_path(self._lake, folder), mode="errorifexists", compression="zstd")
        names = [name for name in self._lake.names(folder) if name.endswith(".parquet")]
        paths = tuple(f"{folder}/{name}" for name in names)
        # Parquet's footers hold the count; asking Spark would be another job.
        footers = (pq.ParquetFile(pa.BufferReader(self._lake.read(path))).metadata for path in paths)
        return FrameFiles(paths, sum(footer.num_rows for footer in footers))

    def _manifest_path(self, frame_id: str) -> str:
        return f"{self._kind}/manifests/{frame_id}.json"


def spark_path(lake: Lake, path: str) -> str:
    """A path of the lake as Hadoop wants it: unlike a URI, without percent escapes."""
    return f"{unquote(lake.uri)}/{path}"
