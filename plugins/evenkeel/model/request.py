"""A request to plan: what the Spark jobs of one plan are asked, and where each leaves its answer.

Jobs take only the lake and a request's id. Each reads the answers of the jobs before it and puts its own
beside them, so a job that is submitted twice answers once.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.artifacts import check_schema_version, decoding
from evenkeel.model.errors import InputError

REQUEST_SCHEMA_VERSION = 1
STRATEGIES = ("certified", "transfer-shedder", "threshold-shedder")
_REQUEST_ID = re.compile(r"[A-Za-z0-9][-.\w]*")


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

    def __post_init__(self) -> None:
        # The id becomes a folder's name.
        if not _REQUEST_ID.fullmatch(self.request_id):
            raise InputError(f"{self.request_id!r} is not a request id", "use letters, digits, - . and _ only")
        if self.strategy not in STRATEGIES:
            raise InputError(f"there is no strategy {self.strategy!r}", f"choose one of {', '.join(STRATEGIES)}")

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> PlanRequest:
        check_schema_version(fields, REQUEST_SCHEMA_VERSION, uri)
        with decoding("a request", uri):
            return cls(**fields)
