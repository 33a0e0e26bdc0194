"""The result of a gate, and whether it blocks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from evenkeel.model.canonical import digest, short_id
from evenkeel.model.errors import RefusedError
from evenkeel.model.outside_json import check_schema_version, decoding, read_record

VERDICT_SCHEMA_VERSION = 2
MOST_NAMED = 3


class Severity(StrEnum):
    """What a failed check does: critical ones block, warnings go into the report."""

    CRITICAL = "critical"
    WARNING = "warning"
    INFO = "info"


_FROM_MILDEST = (Severity.INFO, Severity.WARNING, Severity.CRITICAL)


class Subject(StrEnum):
    """What a gate judges."""

    PLAN = "plan"
    SNAPSHOT = "snapshot"


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
class ExpectedCheck:
    """A check that a gate makes, and how severe it is at least."""

    suite: str
    name: str
    severity: Severity


@dataclass(frozen=True, slots=True)
class Gate:
    """What a gate consists of in this version: the digest of each suite, and every check in it."""

    suites: Mapping[str, str]
    checks: tuple[ExpectedCheck, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """The results of all suites on one snapshot or plan."""

    kind: Subject
    subject_id: str
    suites: Mapping[str, str]
    checks: tuple[Check, ...]
    library_version: str
    schema_version: int = VERDICT_SCHEMA_VERSION

    @property
    def subject(self) -> str:
        """What was judged, as messages name it."""
        return f"{self.kind} {short_id(self.subject_id) if self.kind is Subject.PLAN else self.subject_id}"

    @property
    def sha256(self) -> str:
        """What an approval names, so that it is for this verdict and no other."""
        return digest(self.to_json())

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
        """Raise an error that names the first failed critical check, if there is one."""
        if self.blocking:
            worst = self.blocking[0]
            more = f" (and {len(self.blocking) - 1} more)" if len(self.blocking) > 1 else ""
            raise RefusedError(
                f"the gate blocks {self.subject}: {worst.detail}{more}",
                "fix the cause and take a new snapshot; `evenkeel check` shows all results",
            )

    def require_from(self, gate: Gate, kind: Subject, subject_id: str) -> None:
        """Refuse a verdict on something else, by other suites, or without a check that this gate makes."""
        fault = self._find_fault(gate, kind, subject_id)
        if fault:
            again = "plan again" if kind is Subject.PLAN else "take a new snapshot"
            raise RefusedError(f"the stored verdict on {kind} {short_id(subject_id)} does not count ({fault})", again)

    def _find_fault(self, gate: Gate, kind: Subject, subject_id: str) -> str:
        if (self.kind, self.subject_id) != (kind, subject_id):
            return f"it is on {self.subject}"
        expected = Counter((check.suite, check.name) for check in gate.checks)
        found = Counter((check.suite, check.name) for check in self.checks)
        for counts, fault in ((expected - found, "checks missing"), (found - expected, "unknown checks")):
            if counts:
                names = [name for _, name in sorted(counts)]
                more = f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
                return f"{fault}: {', '.join(names[:MOST_NAMED])}{more}"
        changed = sorted(name for name, _ in gate.suites.items() ^ self.suites.items())
        if changed:
            return f"it was made by another version of the suite {changed[0]}"
        mildest = {(check.suite, check.name): check.severity for check in gate.checks}
        for check in self.checks:
            if _rank(check.severity) < _rank(mildest[check.suite, check.name]):
                return f"the severity of {check.name} was lowered"
        return ""

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"subject": self.subject, "passed": self.passed}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> Verdict:
        check_schema_version(fields, VERDICT_SCHEMA_VERSION, uri)
        with decoding("a verdict", uri):
            # What follows from the rest is written for readers, and worked out again here.
            return read_record(
                cls, {name: value for name, value in fields.items() if name not in ("subject", "passed")}
            )


def _rank(severity: str) -> int:
    """How severe a check is; a word that is no severity would never block, so it counts as the mildest."""
    return _FROM_MILDEST.index(Severity(severity)) if severity in _FROM_MILDEST else -1
