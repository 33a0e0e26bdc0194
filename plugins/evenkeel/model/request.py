"""A request to plan: the input of the Spark jobs of one plan.

A job gets only the lake and the id of a request. It reads the results of earlier jobs and stores its own beside them,
so a job that is submitted twice has one result.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.canonical import digest
from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import check_schema_version, decoding, show

REQUEST_SCHEMA_VERSION = 1
STRATEGIES = ("certified", "transfer-shedder", "threshold-shedder")
LONGEST_REQUEST_ID = 255
_REQUEST_ID = re.compile(r"[A-Za-z0-9][-.\w]*")


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """What to plan, and with which settings."""

    request_id: str
    cluster: str
    snapshot_id: str
    strategy: str
    settings: Mapping[str, Any]
    library_version: str
    schema_version: int = REQUEST_SCHEMA_VERSION

    def __post_init__(self) -> None:
        # The id becomes the name of a folder.
        if not _REQUEST_ID.fullmatch(self.request_id) or len(self.request_id) > LONGEST_REQUEST_ID:
            raise InputError(f"{show(self.request_id)} is not a request id", "use letters, digits, - . and _ only")
        if self.strategy not in STRATEGIES:
            raise InputError(f"there is no strategy {show(self.strategy)}", f"choose one of {', '.join(STRATEGIES)}")

    @property
    def sha256(self) -> str:
        """What every answer names, so that it is for this request and no other."""
        return digest(self.to_json())

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> PlanRequest:
        check_schema_version(fields, REQUEST_SCHEMA_VERSION, uri)
        with decoding("a request", uri):
            return cls(**fields)
