"""A person's word on exactly one plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.artifacts import check_schema_version, decoding
from evenkeel.model.outside_json import require_types

APPROVAL_SCHEMA_VERSION = 1


@dataclass(frozen=True, slots=True)
class Approval:
    """Who approved which plan, when, and in what way."""

    plan_id: str
    approved_by: str
    approved_at: str
    how: str
    schema_version: int = APPROVAL_SCHEMA_VERSION

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> Approval:
        check_schema_version(fields, APPROVAL_SCHEMA_VERSION, uri)
        with decoding("an approval", uri):
            require_types(cls, fields)
            return cls(**fields)
