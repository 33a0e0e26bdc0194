"""What a gate found, and whether it blocks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from evenkeel.model.artifacts import check_schema_version, decoding
from evenkeel.model.errors import RefusedError

VERDICT_SCHEMA_VERSION = 1


class Severity(StrEnum):
    """What a failed check does: a critical one blocks, a warning goes into the report."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Check:
    """The result of one expectation."""

    suite: str
    name: str
    severity: str
    passed: bool
    description: str
    detail: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The results of all suites on one snapshot or plan."""

    subject: str
    checks: tuple[Check, ...]
    library_version: str
    schema_version: int = VERDICT_SCHEMA_VERSION

    @property
    def blocking(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed and check.severity == Severity.CRITICAL)

    @property
    def warnings(self) -> tuple[Check, ...]:
        return tuple(check for check in self.checks if not check.passed and check.severity != Severity.CRITICAL)

    @property
    def passed(self) -> bool:
        return not self.blocking

    def require_passed(self) -> None:
        """Refuse to go on past a failed critical check, naming the first."""
        if self.blocking:
            worst = self.blocking[0]
            more = f" (and {len(self.blocking) - 1} more)" if len(self.blocking) > 1 else ""
            raise RefusedError(
                f"the gate blocks {self.subject}: {worst.detail}{more}",
                "mend the cause and take a new snapshot; `evenkeel check` shows all results",
            )

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"passed": self.passed}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> Verdict:
        check_schema_version(fields, VERDICT_SCHEMA_VERSION, uri)
        with decoding("a verdict", uri):
            checks = tuple(Check(**check) for check in fields["checks"])
            return cls(fields["subject"], checks, fields["library_version"])
