"""A run: what was done to the cluster for a plan, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from evenkeel.model.artifacts import check_schema_version, decoding
from evenkeel.model.canonical import canonical_json
from evenkeel.model.outside_json import parse_json, require_types

JOURNAL_SCHEMA_VERSION = 1
STANDING_SCHEMA_VERSION = 1
RUN_SCHEMA_VERSION = 1
# The last millisecond of the year 9999, beyond which no calendar of Python goes.
LATEST_MS = 253_402_300_799_999


class StepState(StrEnum):
    """How far a step has come.

    INTENDED ──▶ SETTLED     the step's admin call is to be made, or was made; then the new owner was proved
    APPLIED  ──▶ SETTLED     the step's record is written; then the new owner was proved
        └──────▶ FAILED      the end state did not come in time, or another hand changed the bundle
    SKIPPED                  a proof failed before the step, so nothing was done
    PROVED                   a dry run found nothing against the step
    """

    INTENDED = "intended"
    APPLIED = "applied"
    SETTLED = "settled"
    SKIPPED = "skipped"
    FAILED = "failed"
    PROVED = "proved"


class RunState(StrEnum):
    """Where a run stands.

    RUNNING ──▶ DONE        every step has been come to
        ├─────▶ STOPPED     the line was stopped; applying the plan again goes on
        └─────▶ LOST        the session ended, or the writer died, before it could say more; likewise
    """

    RUNNING = "running"
    DONE = "done"
    STOPPED = "stopped"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class JournalEntry:
    """One step's entry in the journal under /evenkeel, written together with the step's effect."""

    plan_id: str
    order: int
    bundle: str
    source: str
    destination: str | None
    epoch: int
    state: StepState
    at_ms: int
    detail: str = ""
    schema_version: int = JOURNAL_SCHEMA_VERSION

    def encode(self) -> bytes:
        return canonical_json(asdict(self))

    @classmethod
    def decode(cls, data: bytes, path: str) -> JournalEntry:
        with decoding("a journal entry", path):
            fields = parse_json(data)
            check_schema_version(fields, JOURNAL_SCHEMA_VERSION, path)
            require_types(cls, fields)
            _require_moment(fields["at_ms"])
            return cls(**fields | {"state": StepState(fields["state"])})


@dataclass(frozen=True, slots=True)
class NativeSwitches:
    """What a run found in Pulsar's dynamic configuration and what it put there, so that anyone can put it back.

    `found` is None for a key that was not there. `made_node` tells that there was no configuration at all.
    """

    found: Mapping[str, str | None]
    put: Mapping[str, str]
    made_node: bool


@dataclass(frozen=True, slots=True)
class PlanStanding:
    """The content of `plans/<plan id>`: who applies the plan, and how far that has come.

    `switches` are there as long as Pulsar's balancer is paused. `own_changes` names the writes of the configuration
    that are Evenkeel's own, as (czxid, version) of the node after each, so that nobody takes them for a new policy.
    """

    plan_id: str
    holder: str
    epoch: int
    state: RunState
    at_ms: int
    counts: Mapping[str, int]
    detail: str = ""
    switches: NativeSwitches | None = None
    own_changes: tuple[tuple[int, int], ...] = ()
    schema_version: int = STANDING_SCHEMA_VERSION

    def encode(self) -> bytes:
        return canonical_json(asdict(self))

    @classmethod
    def decode(cls, data: bytes, path: str) -> PlanStanding:
        with decoding("a plan's standing", path):
            fields = parse_json(data)
            check_schema_version(fields, STANDING_SCHEMA_VERSION, path)
            require_types(cls, fields)
            _require_moment(fields["at_ms"])
            switches = fields["switches"]
            if switches is not None and not switches["put"].keys() <= switches["found"].keys():
                raise ValueError("switches: it is not told what was found for each key that was put")
            return cls(
                **fields
                | {
                    "state": RunState(fields["state"]),
                    "switches": None if switches is None else NativeSwitches(**switches),
                    "own_changes": tuple((czxid, version) for czxid, version in fields["own_changes"]),
                }
            )


@dataclass(frozen=True, slots=True)
class StepResult:
    """What became of a step in a run."""

    order: int
    bundle: str
    source: str
    destination: str | None
    state: StepState
    detail: str
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RunRecord:
    """The content of `run.json`."""

    run_id: str
    plan_id: str
    cluster: str
    epoch: int
    state: RunState
    started_at: str
    ended_at: str
    dry_run: bool
    results: tuple[StepResult, ...]
    detail: str
    library_version: str
    schema_version: int = RUN_SCHEMA_VERSION

    def count(self, state: StepState) -> int:
        return sum(result.state is state for result in self.results)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], uri: str) -> RunRecord:
        check_schema_version(fields, RUN_SCHEMA_VERSION, uri)
        with decoding("a run", uri):
            require_types(cls, fields)
            results = tuple(StepResult(**{**r, "state": StepState(r["state"])}) for r in fields["results"])
            return cls(**{**fields, "state": RunState(fields["state"]), "results": results})


def _require_moment(at_ms: int) -> None:
    if not 0 <= at_ms <= LATEST_MS:
        raise ValueError(f"at_ms = {at_ms} is no moment")
