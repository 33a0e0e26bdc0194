"""What applying a plan needs of the outside world."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from evenkeel.model.observation import BundleView
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, StepState
from evenkeel.model.service_unit import ServiceUnitRecord


class Clock(Protocol):
    """Time, so that tests can hold it."""

    def now(self) -> datetime: ...

    def monotonic_s(self) -> float: ...


class ClusterView(Protocol):
    """The cluster as it is now; reading changes nothing."""

    def incarnations(self, brokers: Collection[str]) -> Mapping[str, int]:
        """Those of the brokers that are registered, with their incarnations."""
        ...

    def policy_versions(self, paths: Sequence[str]) -> Mapping[str, int | None]:
        """Versions of policy nodes now; None for a node that is gone."""
        ...

    def is_stopped(self) -> bool:
        """Whether an operator has pulled the kill switch."""
        ...

    def look(self, bundles: Sequence[str]) -> Mapping[str, BundleView]:
        """Read bundles; from then on, until its next change, each of them is watched."""
        ...

    def next_changes(self, timeout_s: float) -> frozenset[str]:
        """Watched bundles that changed, waiting at most so long for the first."""
        ...


class GuardedWriter(Protocol):
    """The only way to change the cluster: every call fails once another writer holds the fence."""

    @property
    def opening_state(self) -> StepState:
        """What a journal entry says when a step begins: APPLIED if effect and entry are one, else INTENDED."""
        ...

    def acquire(self, plan_id: str) -> int:
        """Take the fence and answer the epoch; refuses while another writer lives."""
        ...

    def journal(self, plan_id: str) -> Mapping[int, JournalEntry]:
        """The plan's journal by the order of its steps."""
        ...

    def begin(self, step: Step, view: BundleView, record: ServiceUnitRecord | None, entry: JournalEntry) -> None:
        """Start a step and journal it; a step whose bundle or destination has changed raises RefusedError."""
        ...

    def conclude(self, entry: JournalEntry) -> None:
        """Journal what became of a step."""
        ...

    def release(self) -> None:
        """Let the fence go; the epoch is spent."""
        ...
