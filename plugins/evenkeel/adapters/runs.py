"""Runs in the lake: what was done to the cluster, and what it did to the load."""

from __future__ import annotations

from typing import Any

from evenkeel.adapters.lake import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.run import RunRecord


class RunStore:
    """Runs of one lake."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def write(self, run: RunRecord) -> str:
        self._lake.put_json(f"runs/{run.run_id}/run.json", run.to_json())
        return self._lake.uri_of(f"runs/{run.run_id}")

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
