"""What applying a plan needs of the outside world."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Protocol

from evenkeel.model.errors import EvenkeelError
from evenkeel.model.observation import BundleView, StepStart
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, PlanStanding, StepState


class Clock(Protocol):
    """Time, so that tests can hold it."""

    def now(self) -> datetime: ...

    def monotonic_s(self) -> float: ...

    def sleep(self, seconds: float) -> None: ...


class ClusterView(Protocol):
    """The cluster as it is now; reading changes nothing."""

    def incarnations(self, brokers: Collection[str]) -> Mapping[str, int]:
        """Those of the brokers that are registered, with their incarnations."""
        ...

    def changed_policies(self, planned: Mapping[str, int | None]) -> Sequence[str]:
        """Policy nodes that other hands have changed since they had these versions; None stands for no node."""
        ...

    def draining(self) -> frozenset[str]:
        """The brokers that an operator wants empty now: none of them may receive anything."""
        ...

    def stopped_by(self) -> str | None:
        """Who has pulled the kill switch, and why, in words; None while it is not pulled."""
        ...

    def leader(self) -> str | None:
        """The broker that leads the cluster now, if there is one."""
        ...

    def boundaries(self, namespaces: Collection[str]) -> Mapping[str, frozenset[int]]:
        """Where the ranges of namespaces begin and end now; a namespace that is gone has none."""
        ...

    def look(self, bundles: Sequence[str]) -> Mapping[str, BundleView]:
        """Read bundles; from then on, until its next change, each of them is watched."""
        ...

    def next_changes(self, timeout_s: float) -> frozenset[str]:
        """Watched bundles that changed, waiting at most so long for the first."""
        ...


class StandingKeeper(Protocol):
    """Who may say how plans stand, and clear up after runs that have ended; knows no steps."""

    def standings(self) -> Mapping[str, PlanStanding]:
        """How every plan of the cluster stands, by its id."""
        ...

    def acquire(self, plan_id: str) -> int:
        """Take the fence and answer the epoch; refuses while another writer lives."""
        ...

    def open(self, standing: PlanStanding) -> Sequence[str]:
        """Put back what ended runs left, and say how the plan stands from now on; answers warnings in words."""
        ...

    def release(self) -> None:
        """Let the fence go; the epoch is spent."""
        ...


class GuardedWriter(StandingKeeper, Protocol):
    """The only way to change the cluster: every call fails once another writer holds the fence."""

    @property
    def opening_state(self) -> StepState:
        """What a journal entry says when a step begins: APPLIED if effect and entry are one, else INTENDED."""
        ...

    def journal(self, plan_id: str) -> Mapping[int, JournalEntry]:
        """The plan's journal by the order of its steps."""
        ...

    def await_connection(self) -> None:
        """Wait while the session is suspended; a lost one raises SessionLostError, now and ever after."""
        ...

    def connected_for_s(self) -> float:
        """How long the session has been connected without a break."""
        ...

    def pause_native_balancer(self) -> bool:
        """Keep Pulsar from moving and splitting bundles by itself until `close`; False where it does not anyway."""
        ...

    def begin(self, starts: Sequence[StepStart]) -> Mapping[int, EvenkeelError]:
        """Start steps and journal them; answers by order those that were not begun, for sure, and why.

        A RefusedError speaks of one step: its bundle or its destination has changed. A NotDoneError does too: the step
        got lost on its way, and may begin once it is proved anew. A FencedOutError, or any other error, is the end of
        the writer.
        """
        ...

    def drive_home(self, step: Step) -> None:
        """Remind the cluster of a destination that it only notes and has not honoured yet; changes nothing else."""
        ...

    def conclude(self, entries: Sequence[JournalEntry]) -> None:
        """Journal what became of steps, all of them or none."""
        ...

    def close(self, standing: PlanStanding) -> Sequence[str]:
        """Give Pulsar its own balancer back and say how the run ended; answers warnings in words."""
        ...
