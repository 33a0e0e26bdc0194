"""What a snapshot says beside its tables: one note a kind of finding, however many brokers or bundles it is about."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

MOST_NAMED = 3


class FindingKind(Enum):
    """What a thing is, and what was found of one, or of several."""

    NO_REPORT = ("broker", "gave no load report", "gave no load report")
    NO_TOPICS = ("broker", "gave no list of topics", "gave no list of topics")
    NOT_REGISTERED = ("broker", "owns bundles but is not registered", "own bundles but are not registered")
    SILENT = (
        "broker",
        "has stopped reporting and is taken to refuse new bundles",
        "have stopped reporting and are taken to refuse new bundles",
    )
    FOREIGN_NODE = (
        "node",
        "is not named like a bundle and was passed over",
        "are not named like bundles and were passed over",
    )
    TRACE_OF_SPLIT = (
        "node",
        "is the trace of a split and was passed over",
        "are traces of splits and were passed over",
    )
    REPORT_BEFORE_SPLIT = ("bundle", "is reported from before its split", "are reported from before their splits")
    LOST_OWNER = (
        "bundle",
        "lost its owner after its load was reported",
        "lost their owners after their load was reported",
    )


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that was found of one thing; `why` adds what differs from thing to thing."""

    kind: FindingKind
    name: str
    why: str = ""


def tell_findings(findings: Iterable[Finding]) -> list[str]:
    """One sentence a kind, in the order in which the kinds came up; it counts the things and names the first few."""
    by_kind: dict[FindingKind, list[Finding]] = {}
    for finding in findings:
        by_kind.setdefault(finding.kind, []).append(finding)
    return [_tell(kind, found) for kind, found in by_kind.items()]


def _tell(kind: FindingKind, found: list[Finding]) -> str:
    noun, of_one, of_many = kind.value
    if len(found) == 1:
        (only,) = found
        return f"{noun} {only.name} {of_one}{_in_brackets(only.why)}"
    return f"{len(found):,} {noun}s {of_many}: {name_first([f'{one.name}{_in_brackets(one.why)}' for one in found])}"


def name_first(names: Sequence[str]) -> str:
    """The first few names, and how many more there are."""
    more = f" and {len(names) - MOST_NAMED:,} more" if len(names) > MOST_NAMED else ""
    return ", ".join(names[:MOST_NAMED]) + more


def _in_brackets(why: str) -> str:
    return f" ({why})" if why else ""
