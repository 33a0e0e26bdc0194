"""What a run was given, and what happened in it: the values that histories are made of and judged by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evenkeel.model.plan import Step
from evenkeel.model.service_unit import ServiceUnitRecord
from faults.txn_log import Transaction

CONCLUSIONS = frozenset({"settled", "failed", "skipped"})
INTENDED, FAILED = "intended", "failed"


@dataclass(frozen=True, slots=True)
class RunFacts:
    """What a run was given, and what was done to it from outside; the history is judged against these."""

    root: str
    home: str
    cluster: str
    plan_id: str
    steps: Sequence[Step]
    in_flight_steps: int
    step_deadline_ms: int
    ends_at_ms: int
    approved_at_ms: int | None
    until_ms: Mapping[int | None, int] = field(default_factory=dict)
    """By epoch: when the caller of a run wanted it to end."""
    policy_paths: frozenset[str] = frozenset()
    switches_before: Mapping[str, str] | None = None
    foreign_sessions: frozenset[int] = frozenset()
    """Sessions of operators and other tools that the harness itself has let in."""
    disturbed: frozenset[str] = frozenset()
    """Bundles that a foreign hand, or the death of a broker, may have led elsewhere."""
    must_finish: bool = True
    """Whether nothing stood in the way of the plan once the run was resumed, bundles in other hands apart."""
    is_done: bool = True
    """Whether the last run of the plan said that it is done."""
    is_admin_call: bool = False
    """Whether steps are admin calls with the journal around them, as for all but the metadata-store view."""
    has_records: bool = True
    """Whether owners are service-unit records, as for both views of the extensible load manager."""
    set_by_operator: Mapping[str, str] = field(default_factory=dict)
    """Switches that an operator has set during the run, be it to the value that they had."""
    policy_edits_ms: Sequence[int] = ()
    """When policies were changed in a configuration store of their own, which this history is not about."""
    clock_limit_ms: int | None = None
    """By how much a record's time may be off ZooKeeper's; None where that is not judged."""
    max_steps: int = 5_000
    max_sessions: int | None = None
    start_zxid: int = 0
    """Where the run begins; what came before built the cluster."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A node after one transaction; data is None once it is gone."""

    transaction: Transaction
    path: str
    data: bytes | None
    version: int
    czxid: int

    @property
    def zxid(self) -> int:
        return self.transaction.zxid


@dataclass(frozen=True, slots=True)
class Begin:
    """The moment in which a step took effect: its record, or its intent, was written."""

    transaction: Transaction
    bundle: str
    record: ServiceUnitRecord | None
    step: Step | None


@dataclass(frozen=True, slots=True)
class EntryWrite:
    """A journal entry as written once."""

    transaction: Transaction
    order: int
    is_new: bool
    fields: Mapping[str, Any]

    @property
    def state(self) -> str:
        return str(self.fields.get("state"))

    @property
    def bundle(self) -> str:
        return str(self.fields.get("bundle"))


@dataclass(frozen=True, slots=True)
class Acquisition:
    """A session that took the fence, and the epoch that it has from then on."""

    transaction: Transaction
    epoch: int
