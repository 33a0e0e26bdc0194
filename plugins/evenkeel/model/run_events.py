"""The audit record of a run: every decision in order; the run's record can be rebuilt from it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from evenkeel.model.canonical import canonical_json, short_id
from evenkeel.model.errors import InputError
from evenkeel.model.outside_json import check_schema_version, decoding, parse_json, require_types
from evenkeel.model.run import RunRecord, RunState, StepResult, StepState

EVENT_SCHEMA_VERSION = 1


class Decision(StrEnum):
    """What a run decided or encountered; the decisions about a step are its states."""

    STARTED = "started"
    FENCED_IN = "took the fence"
    WAITED = "waited in safe mode"
    PAUSED = "paused Pulsar's balancer"
    RESTORED = "gave Pulsar's balancer back"
    WARNED = "warned"
    WAVE_SETTLED = "wave settled"
    SESSION_LOST = "lost its session"
    FENCED_OUT = "fenced out"
    ENDED = "ended"
    INTENDED = "intended"
    APPLIED = "applied"
    SETTLED = "settled"
    SKIPPED = "skipped"
    FAILED = "failed"
    PROVED = "proved"


_STEP_STATES = {Decision(state.value): state for state in StepState}


@dataclass(frozen=True, slots=True)
class RunEvent:
    """One line of `events.jsonl`; `before` and `after` are the records of a bundle in ZooKeeper."""

    at: str
    epoch: int
    decision: Decision
    detail: str = ""
    order: int | None = None
    kind: str | None = None
    bundle: str | None = None
    source: str | None = None
    destination: str | None = None
    seconds: float | None = None
    earlier_epoch: int | None = None
    before: str | None = None
    after: str | None = None
    facts: Mapping[str, Any] | None = None
    schema_version: int = EVENT_SCHEMA_VERSION

    def encode(self) -> bytes:
        return canonical_json({name: value for name, value in asdict(self).items() if value is not None})

    @classmethod
    def decode(cls, line: bytes, uri: str) -> RunEvent:
        with decoding("an event of a run", uri):
            fields = parse_json(line)
            check_schema_version(fields, EVENT_SCHEMA_VERSION, uri)
            require_types(cls, fields)
            return cls(**fields | {"decision": Decision(fields["decision"])})


def encode_events(events: Iterable[RunEvent]) -> bytes:
    """Events as JSON lines."""
    return b"".join(event.encode() + b"\n" for event in events)


def decode_events(data: bytes, uri: str) -> list[RunEvent]:
    return [RunEvent.decode(line, uri) for line in data.splitlines() if line]


def rebuild_run(events: Iterable[RunEvent], uri: str = "the list of events") -> RunRecord:
    """Rebuild the record of a run from its events; a run without an end counts as lost."""
    started: RunEvent | None = None
    last: RunEvent | None = None
    results: dict[int, StepResult] = {}
    for event in events:
        last = event
        if event.decision is Decision.STARTED:
            started = event
        elif event.decision in _STEP_STATES and event.order is not None:
            results[event.order] = StepResult(
                event.order,
                str(event.bundle),
                str(event.source),
                event.destination,
                _STEP_STATES[event.decision],
                event.detail,
                event.seconds,
                event.earlier_epoch,
            )
    if started is None or last is None or started.facts is None:
        raise InputError(f"{uri} has no start of a run", "restore the file from a backup")
    has_ended = last.decision is Decision.ENDED and last.facts is not None
    state = RunState(last.facts["state"]) if has_ended and last.facts is not None else RunState.LOST
    plan_id = str(started.facts["plan_id"])
    return RunRecord(
        run_id=name_run(plan_id, last.epoch),
        plan_id=plan_id,
        cluster=str(started.facts["cluster"]),
        epoch=last.epoch,
        state=state,
        started_at=started.at,
        ended_at=last.at,
        dry_run=bool(started.facts["dry_run"]),
        results=tuple(results[order] for order in sorted(results)),
        detail=last.detail if has_ended else "",
        library_version=str(started.facts["library_version"]),
    )


def name_run(plan_id: str, epoch: int) -> str:
    """The id of a run: the plan's short id and the epoch."""
    return f"{short_id(plan_id)}-{epoch:06d}"
