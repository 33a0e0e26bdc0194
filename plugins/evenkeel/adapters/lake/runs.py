"""Runs in the lake: what was done to the cluster, and what it did to the load."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from evenkeel.adapters.lake.references import Candidates, is_plain_name, resolve_reference
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.run import RunRecord
from evenkeel.model.run_events import RunEvent, decode_events, encode_events

log = logging.getLogger(__name__)


class RunStore:
    """Runs of one lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write(self, run: RunRecord, events: Sequence[RunEvent] = (), metrics: str = "") -> str:
        """Store a run: its events and counts first, then the record that commits them."""
        folder = f"runs/{run.run_id}"
        if events:
            self._lake.put_if_absent(f"{folder}/events.jsonl", encode_events(events))
        if metrics:
            self._lake.put_if_absent(f"{folder}/metrics.prom", metrics.encode())
        self._lake.put_json(f"{folder}/run.json", run.to_json())
        return self._lake.uri_of(folder)

    def read_events(self, run_id: str) -> list[RunEvent]:
        """What a run decided, in order."""
        path = f"runs/{run_id}/events.jsonl"
        return decode_events(self._lake.read(path), self._lake.uri_of(path))

    def records(self, cluster: str | None = None) -> list[RunRecord]:
        """The records of all runs, or of a cluster's; one that cannot be read is skipped with a warning."""
        return self._read_all(self.ids(), cluster)

    def ids(self) -> list[str]:
        """Ids of all runs whose record was written."""
        return [name for name in self._lake.names("runs") if self._lake.exists(_document(name))]

    def resolve(self, reference: str, cluster: str | None = None) -> str:
        """The full id of a run: its id, a unique prefix, or `latest`, the run (of a cluster) that started last."""
        if is_plain_name(reference) and self._lake.exists(_document(reference)):
            return reference
        ids = self.ids()
        of_cluster = "" if cluster is None else f" of cluster {cluster!r}"
        return resolve_reference(
            reference,
            Candidates(
                "run",
                f"in {self._lake.uri}",
                ids,
                lambda: self._find_latest(ids, cluster),
                (f"no runs{of_cluster} in {self._lake.uri}", "apply a plan with `evenkeel apply`"),
            ),
        )

    def load(self, reference: str, cluster: str | None = None) -> RunRecord:
        """A run's record by its reference; see `resolve`."""
        path = _document(self.resolve(reference, cluster))
        return RunRecord.from_json(self._lake.read_json(path), self._lake.uri_of(path))

    def _find_latest(self, ids: Sequence[str], cluster: str | None) -> str | None:
        latest = max(
            self._read_all(ids, cluster),
            key=lambda record: (record.started_at, record.epoch, record.run_id),
            default=None,
        )
        return None if latest is None else latest.run_id

    def _read_all(self, ids: Sequence[str], cluster: str | None) -> list[RunRecord]:
        records = []
        for run_id in ids:
            try:
                record = self.load(run_id)
            except InputError as error:
                log.warning("run %s is skipped: %s", run_id, error)
                continue
            if cluster in (None, record.cluster):
                records.append(record)
        return records

    def write_verification(self, run_id: str, snapshot_id: str, value: dict[str, Any]) -> str:
        path = f"runs/{run_id}/verified-{snapshot_id}.json"
        self._lake.put_json(path, value)
        return self._lake.uri_of(path)


def _document(run_id: str) -> str:
    return f"runs/{run_id}/run.json"
