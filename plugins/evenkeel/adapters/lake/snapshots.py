"""Snapshots in the lake: four Parquet files, and a manifest that commits them."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from evenkeel import __version__
from evenkeel.adapters.lake.references import LATEST, Candidates, resolve_reference
from evenkeel.adapters.lake.store import Lake, cluster_folder, from_parquet, to_parquet
from evenkeel.model.canonical import sha256_hex
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager, SnapshotManifest, TableFile, snapshot_id
from evenkeel.model.verdict import Verdict

# As much as a writer's clock may be off by default; a snapshot's id has no fractions of a second.
MOST_AHEAD = timedelta(seconds=5)
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SnapshotContent:
    """What a reader found in a cluster, before it has a place in the lake."""

    cluster: str
    taken_at: datetime
    load_manager: LoadManager
    tables: Mapping[str, pa.Table]
    zxid_first: int | None = None
    zxid_last: int | None = None
    oldest_report_age_s: float | None = None
    brokers_without_report: tuple[str, ...] = ()
    brokers_with_stale_report: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PreparedSnapshot:
    """A snapshot with its id and the bytes of its files, not yet in a lake."""

    manifest: SnapshotManifest
    files: Mapping[str, bytes]


def prepare_snapshot(content: SnapshotContent) -> PreparedSnapshot:
    """Encode what a reader found; the id follows from the bytes."""
    files = {name: to_parquet(table) for name, table in content.tables.items()}
    digests = {name: sha256_hex(data) for name, data in files.items()}
    new_id = snapshot_id(content.cluster, content.taken_at, digests)
    partition = _partition(content.cluster, content.taken_at)
    manifest = SnapshotManifest(
        cluster=content.cluster,
        taken_at=content.taken_at,
        load_manager=content.load_manager,
        tables={
            name: TableFile(f"snapshots/{name}/{partition}/{new_id}.parquet", table.num_rows, digests[name])
            for name, table in content.tables.items()
        },
        library_version=__version__,
        zxid_first=content.zxid_first,
        zxid_last=content.zxid_last,
        oldest_report_age_s=content.oldest_report_age_s,
        brokers_without_report=content.brokers_without_report,
        brokers_with_stale_report=content.brokers_with_stale_report,
        notes=content.notes,
    )
    return PreparedSnapshot(manifest, files)


class SnapshotStore:
    """Snapshots of all clusters in one lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write(self, content: SnapshotContent) -> SnapshotManifest:
        """Store what a reader found; a repeated write of the same content is a success."""
        return self.commit(prepare_snapshot(content))

    def commit(self, prepared: PreparedSnapshot) -> SnapshotManifest:
        """Store the tables, then commit them by the manifest."""
        manifest = prepared.manifest
        for name, data in prepared.files.items():
            self._lake.put_if_absent(manifest.tables[name].path, data)
        self._lake.put_json(self._manifest_path(manifest.cluster, manifest.snapshot_id), manifest.to_json())
        return manifest

    def ids(self, cluster: str) -> list[str]:
        """Ids of a cluster's committed snapshots, oldest first."""
        names = self._lake.names(f"snapshots/manifests/{cluster_folder(cluster)}")
        return [name.removesuffix(".json") for name in names]

    def newest_first(self, cluster: str) -> Iterator[str]:
        """Ids of a cluster's snapshots that a plan may start from, newest first.

        A snapshot from the future comes from a machine whose clock is off: it would be the newest until that time has
        come, so it is left out with a warning. Imported ones have whatever time their author gave them.
        """
        latest = f"{datetime.now(UTC) + MOST_AHEAD:%Y%m%dT%H%M%SZ}"
        for name in reversed(self.ids(cluster)):
            if name.partition("-")[0] <= latest or self.load(cluster, name).load_manager is LoadManager.IMPORTED:
                yield name
            else:
                log.warning("snapshot %s of cluster %s is from the future and is ignored", name, cluster)

    def resolve(self, cluster: str, reference: str | None = None) -> str:
        """The full id of a cluster's snapshot: its id, a unique prefix, or `latest`, which None means too."""
        ids = self.ids(cluster)
        return resolve_reference(
            LATEST if reference is None else reference,
            Candidates(
                "snapshot",
                f"of cluster {cluster!r} in {self._lake.uri}",
                ids,
                lambda: next(self.newest_first(cluster), None),
                (
                    f"no snapshots of cluster {cluster!r} in {self._lake.uri}",
                    "take one with `evenkeel snapshot` or `evenkeel import`",
                ),
            ),
        )

    def load(self, cluster: str, reference: str | None = None) -> SnapshotManifest:
        """A snapshot's manifest by its reference; see `resolve`."""
        wanted = self.resolve(cluster, reference)
        path = self._manifest_path(cluster, wanted)
        manifest = SnapshotManifest.from_json(self._lake.read_json(path), self._lake.uri_of(path))
        if manifest.snapshot_id != wanted:
            raise InputError(f"{self._lake.uri_of(path)} does not match its id", "take a new snapshot")
        return manifest

    def read_table(self, manifest: SnapshotManifest, name: str) -> pa.Table:
        """One table of a snapshot, proved to be the one that the manifest names."""
        file = manifest.tables[name]
        data, uri = self._lake.read(file.path), self._lake.uri_of(file.path)
        if sha256_hex(data) != file.sha256:
            raise InputError(f"{uri} does not match its manifest", "take a new snapshot")
        return from_parquet(data, uri)

    def require_intact(self, manifest: SnapshotManifest, name: str) -> None:
        """Refuse a table that is not the one that the manifest names, before Spark reads it from the lake by itself."""
        file = manifest.tables[name]
        if self._lake.sha256_of(file.path) != file.sha256:
            raise InputError(f"{self._lake.uri_of(file.path)} does not match its manifest", "take a new snapshot")

    def write_verdict(self, manifest: SnapshotManifest, settings: Settings, verdict: Verdict) -> None:
        self._lake.put_json(self._verdict_path(manifest, settings), verdict.to_json())

    def read_verdict(self, manifest: SnapshotManifest, settings: Settings) -> Verdict | None:
        """The verdict by these settings, if the snapshot was judged by them."""
        path = self._verdict_path(manifest, settings)
        if not self._lake.exists(path):
            return None
        return Verdict.from_json(self._lake.read_json(path), self._lake.uri_of(path))

    @staticmethod
    def _manifest_path(cluster: str, snapshot_id: str) -> str:
        return f"snapshots/manifests/{cluster_folder(cluster)}/{snapshot_id}.json"

    @staticmethod
    def _verdict_path(manifest: SnapshotManifest, settings: Settings) -> str:
        # What a gate finds depends on the age that it allows a report.
        limit = f"{settings.broker_load_data_ttl_in_seconds:g}s"
        return f"snapshots/gates/{cluster_folder(manifest.cluster)}/{manifest.snapshot_id}-reports-within-{limit}.json"


def _partition(cluster: str, taken_at: datetime) -> str:
    return f"{cluster_folder(cluster)}/date={taken_at.astimezone(UTC):%Y-%m-%d}"
