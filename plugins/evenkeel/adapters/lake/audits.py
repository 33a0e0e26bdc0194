"""Audits in the lake: tables, report and metrics, and the record that commits them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC
from typing import Any

from evenkeel.adapters.lake.references import Candidates, resolve_reference
from evenkeel.adapters.lake.store import (
    MOST_DOCUMENT_BYTES,
    Lake,
    cluster_folder,
    from_arrow,
    from_json,
    from_parquet,
    to_arrow,
    to_parquet,
)
from evenkeel.model.audit import AUDIT_TABLES, Audit, AuditRecord
from evenkeel.model.canonical import digest, sha256_hex, short_id
from evenkeel.model.errors import InputError


class AuditStore:
    """Audits of all clusters in one lake, each in a folder that is named by its time and content."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def encode(self, tables: Mapping[str, Sequence[Any]]) -> dict[str, bytes]:
        """The tables as Parquet, for `write`; their digests go into the record."""
        return {name: to_parquet(to_arrow(table, tables[name])) for name, table in AUDIT_TABLES.items()}

    def write(self, record: AuditRecord, tables: Mapping[str, bytes], beside: Mapping[str, bytes]) -> str:
        """Store the tables and what lies beside them, then commit all by audit.json; returns the audit's id."""
        audit_id = name_audit(record)
        folder = _folder(record.cluster, audit_id)
        for name, data in tables.items():
            self._lake.put_if_absent(f"{folder}/{name}.parquet", data)
        for name, data in beside.items():
            self._lake.put_if_absent(f"{folder}/{name}", data)
        self._lake.put_json(f"{folder}/audit.json", record.to_json())
        return audit_id

    def uri_of(self, cluster: str, audit_id: str) -> str:
        return self._lake.uri_of(_folder(cluster, audit_id))

    def ids(self, cluster: str) -> list[str]:
        """Ids of a cluster's committed audits, oldest first."""
        names = self._lake.names(f"audits/{cluster_folder(cluster)}")
        return [name for name in names if self._lake.exists(_document(cluster, name))]

    def find_latest(self, cluster: str) -> str | None:
        """The id of a cluster's newest audit; None where there is none."""
        return next(reversed(self.ids(cluster)), None)

    def load(self, cluster: str, reference: str = "latest") -> Audit:
        """An audit by its id, a unique prefix of it, or `latest`; proved to be the one that its id stands for."""
        ids = self.ids(cluster)
        audit_id = resolve_reference(
            reference,
            Candidates(
                "audit",
                f"of cluster {cluster!r} in {self._lake.uri}",
                ids,
                lambda: self.find_latest(cluster),
                (f"no audits of cluster {cluster!r} in {self._lake.uri}", "make one with `evenkeel audit`"),
            ),
        )
        path = _document(cluster, audit_id)
        uri = self._lake.uri_of(path)
        record = AuditRecord.from_json(from_json(self._lake.read(path, MOST_DOCUMENT_BYTES), uri), uri)
        if name_audit(record) != audit_id:
            raise InputError(f"{uri} does not match its id", "audit again")
        tables = {name: self._rows(record, audit_id, name) for name in AUDIT_TABLES}
        rows = {name: tuple(listed) for name, listed in tables.items()}
        return Audit(audit_id, self.uri_of(cluster, audit_id), record, **rows)

    def _rows(self, record: AuditRecord, audit_id: str, name: str) -> list[Any]:
        path = f"{_folder(record.cluster, audit_id)}/{name}.parquet"
        data, uri = self._lake.read(path), self._lake.uri_of(path)
        if sha256_hex(data) != record.tables.get(name):
            raise InputError(f"{uri} is not the table that its audit names", "audit again")
        return from_arrow(AUDIT_TABLES[name], from_parquet(data, uri), uri)


def name_audit(record: AuditRecord) -> str:
    """The id of an audit: its second, and a digest of what it says."""
    return f"{record.audited_at.astimezone(UTC):%Y%m%dT%H%M%SZ}-{short_id(digest(record.to_json()))}"


def _folder(cluster: str, audit_id: str) -> str:
    return f"audits/{cluster_folder(cluster)}/{audit_id}"


def _document(cluster: str, audit_id: str) -> str:
    return f"{_folder(cluster, audit_id)}/audit.json"
