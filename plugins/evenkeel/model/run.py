"""A run: what was done to the cluster for a plan, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from evenkeel.model.canonical import canonical_json
from evenkeel.model.outside_json import check_schema_version, decoding, parse_json, require_types

JOURNAL_SCHEMA_VERSION = 1
STATUS_SCHEMA_VERSION = 1
RUN_SCHEMA_VERSION = 1
# The last millisecond of the year 9999, where Python's calendar ends.
LATEST_MS = 253_402_300_799_999


class StepState(StrEnum):
    """The progress of a step.

    INTENDED ──▶ SETTLED     the admin call is about to be made, or was made; then the new owner was confirmed
    APPLIED  ──▶ SETTLED     the step's record is written; then the new owner was confirmed
        └──────▶ FAILED      the end state was not reached in time, or somebody else changed the bundle
    SKIPPED                  a check failed before the step, so nothing was done
    PROVED                   a dry run found nothing against the step
    """

    INTENDED = "intended"
    APPLIED = "applied"
    SETTLED = "settled"
    SKIPPED = "skipped"
    FAILED = "failed"
    PROVED = "proved"


class RunState(StrEnum):
    """The state of a run.

    RUNNING ──▶ DONE        every step was processed
        ├─────▶ STOPPED     the run stopped early; applying the plan again continues it
        └─────▶ LOST        the session ended, or the writer died, before it could record more; likewise
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
    """What a run found in Pulsar's dynamic configuration and what it wrote, so that anyone can restore it.

    `found` is what to restore: None for a key that was absent and that is to be removed again. `made_node` means that
    there was no configuration node at all. `others` are digests of all other values, by their keys, when the switches
    were written: they tell what somebody else has changed since. Statuses of earlier versions have none.
    """

    found: Mapping[str, str | None]
    put: Mapping[str, str]
    made_node: bool
    since_ms: int = 0
    others: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """The content of `plans/<plan id>`: who applies the plan, and the progress.

    `switches` is set while Pulsar's balancer is paused. `own_changes` lists Evenkeel's own writes of the configuration,
    as (czxid, version) of the node after each, so that nobody mistakes them for a policy change.
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
    schema_version: int = STATUS_SCHEMA_VERSION

    @property
    def paused_since_ms(self) -> int:
        """Since when Pulsar's balancer is paused; the time of the status where that was not recorded."""
        return self.at_ms if self.switches is None else self.switches.since_ms or self.at_ms

    def encode(self) -> bytes:
        return canonical_json(asdict(self))

    @classmethod
    def decode(cls, data: bytes, path: str) -> PlanStatus:
        with decoding("a plan's status", path):
            fields = parse_json(data)
            check_schema_version(fields, STATUS_SCHEMA_VERSION, path)
            require_types(cls, fields)
            _require_moment(fields["at_ms"])
            switches = fields["switches"]
            if switches is not None:
                _require_moment(switches.get("since_ms", 0))
                if not switches["put"].keys() <= switches["found"].keys():
                    raise ValueError("switches: a key was written, but what was found for it is missing")
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
    """The result of a step in a run; `earlier_epoch` is that of the run which did it, if it was not this one."""

    order: int
    bundle: str
    source: str
    destination: str | None
    state: StepState
    detail: str
    seconds: float | None = None
    earlier_epoch: int | None = None


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
        """How many steps of the plan are in a state, whichever run brought them there."""
        return sum(result.state is state for result in self.results)

    def count_own(self, *states: StepState) -> int:
        """How many steps this very run brought into one of these states."""
        return sum(result.state in states and result.earlier_epoch is None for result in self.results)

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
        raise ValueError(f"at_ms = {at_ms} is not a valid time")
