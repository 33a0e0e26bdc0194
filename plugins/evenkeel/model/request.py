"""A request to plan: what the Spark jobs of one plan are asked, and where each leaves its answer.

Jobs take only the lake and a request's id. Each reads the answers of the jobs before it and puts its own
beside them, so a job that is submitted twice answers once.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.artifacts import check_schema_version
from evenkeel.model.canonical import digest

REQUEST_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What is to be planned, and by which settings."""

    request_id: str
    cluster: str
    snapshot_id: str
    strategy: str
    settings: Mapping[str, Any]
    library_version: str
    schema_version: int = REQUEST_SCHEMA_VERSION

    @property
    def settings_digest(self) -> str:
        return digest(self.settings)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> PlanRequest:
        check_schema_version(fields, REQUEST_SCHEMA_VERSION, uri)
        return cls(**fields)
