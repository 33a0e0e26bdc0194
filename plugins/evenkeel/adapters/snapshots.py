"""Snapshots in the lake: four Parquet files, and a manifest that commits them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

import pyarrow as pa

from evenkeel import __version__
from evenkeel.adapters.lake import Lake, to_parquet
from evenkeel.model.canonical import sha256_hex
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager, SnapshotManifest, TableFile, snapshot_id
from evenkeel.model.verdict import Verdict


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


class SnapshotStore:
    """Snapshots of all clusters in one lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write(self, content: SnapshotContent) -> SnapshotManifest:
        """Store the tables, then commit them by the manifest; a repeated write of the same content is a success."""
        files = {name: to_parquet(table) for name, table in content.tables.items()}
        digests = {name: sha256_hex(data) for name, data in files.items()}
        new_id = snapshot_id(content.cluster, content.taken_at, digests)
        tables = {}
        for name, data in files.items():
            path = f"snapshots/{name}/{_partition(content.cluster, content.taken_at)}/{new_id}.parquet"
            self._lake.put_if_absent(path, data)
            tables[name] = TableFile(path, content.tables[name].num_rows, digests[name])
        manifest = SnapshotManifest(
            cluster=content.cluster,
            taken_at=content.taken_at,
            load_manager=content.load_manager,
            tables=tables,
            library_version=__version__,
            zxid_first=content.zxid_first,
            zxid_last=content.zxid_last,
            oldest_report_age_s=content.oldest_report_age_s,
            brokers_without_report=content.brokers_without_report,
            brokers_with_stale_report=content.brokers_with_stale_report,
            notes=content.notes,
        )
        self._lake.put_json(self._manifest_path(content.cluster, new_id), manifest.to_json())
        return manifest

    def ids(self, cluster: str) -> list[str]:
        """Ids of a cluster's committed snapshots, oldest first."""
        names = self._lake.names(f"snapshots/manifests/cluster={cluster}")
        return [name.removesuffix(".json") for name in names]

    def load(self, cluster: str, wanted: str | None = None) -> SnapshotManifest:
        """A snapshot by its id, or the newest one."""
        if wanted is None:
            known = self.ids(cluster)
            if not known:
                raise InputError(
                    f"{self._lake.uri} holds no snapshot of cluster {cluster!r}",
                    "take one with `evenkeel snapshot` or `evenkeel import`",
                )
            wanted = known[-1]
        path = self._manifest_path(cluster, wanted)
        manifest = SnapshotManifest.from_json(self._lake.read_json(path), self._lake.uri_of(path))
        if manifest.snapshot_id != wanted:
            raise InputError(f"{self._lake.uri_of(path)} does not match its id", "take a new snapshot")
        return manifest

    def read_table(self, manifest: SnapshotManifest, name: str) -> pa.Table:
        """One table of a snapshot, proved to be the one that the manifest names."""
        file = manifest.tables[name]
        if sha256_hex(self._lake.read(file.path)) != file.sha256:
            raise InputError(f"{self._lake.uri_of(file.path)} does not match its manifest", "take a new snapshot")
        return self._lake.read_table(file.path)

    def write_verdict(self, manifest: SnapshotManifest, settings: Settings, verdict: Verdict) -> None:
        self._lake.put_json(self._verdict_path(manifest, settings), verdict.to_json())

    def read_verdict(self, manifest: SnapshotManifest, settings: Settings) -> Verdict | None:
        """The verdict by these settings, if the snapshot was judged by them."""
        path = self._verdict_path(manifest, settings)
        if not self._lake.exists(path):
            return None
        return Verdict.from_json(self._lake.read_json(path), self._lake.uri_of(path))

    @staticmethod
    def _manifest_path(cluster: str, wanted: str) -> str:
        return f"snapshots/manifests/cluster={cluster}/{wanted}.json"

    @staticmethod
    def _verdict_path(manifest: SnapshotManifest, settings: Settings) -> str:
        # What a gate finds depends on the age that it allows a report.
        limit = f"{settings.broker_load_data_ttl_in_seconds:g}s"
        return f"snapshots/gates/cluster={manifest.cluster}/{manifest.snapshot_id}-reports-within-{limit}.json"


def _partition(cluster: str, taken_at: datetime) -> str:
    return f"cluster={cluster}/date={taken_at.astimezone(UTC):%Y-%m-%d}"
