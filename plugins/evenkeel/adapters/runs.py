"""Runs in the lake: what was done to the cluster, and what it did to the load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from evenkeel.adapters.lake import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.run import RunRecord, RunState
from evenkeel.model.run_events import RunEvent, decode_events, encode_events


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

    def has_lost(self, cluster: str, epoch: int) -> bool:
        """Whether the run of an epoch ended by losing its session."""
        runs = [self.load(name) for name in self.ids() if name.endswith(f"-{epoch:06d}")]
        return any(run.cluster == cluster and run.epoch == epoch and run.state is RunState.LOST for run in runs)

    def ids(self) -> list[str]:
        return self._lake.names("runs")

    def load(self, wanted: str) -> RunRecord:
        matches = [name for name in self.ids() if name.startswith(wanted)] if wanted else []
        if len(matches) != 1:
            found = "no run" if not matches else f"{len(matches)} runs"
            raise InputError(f"{found} in {self._lake.uri} begin with {wanted!r}", "give the whole run id")
        path = f"runs/{matches[0]}/run.json"
        return RunRecord.from_json(self._lake.read_json(path), self._lake.uri_of(path))

    def write_verification(self, run_id: str, snapshot_id: str, value: dict[str, Any]) -> str:
        path = f"runs/{run_id}/verified-{snapshot_id}.json"
        self._lake.put_json(path, value)
        return self._lake.uri_of(path)
