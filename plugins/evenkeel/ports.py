"""What applying a plan needs of the outside world."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol

from evenkeel.model.approval import Approval
from evenkeel.model.errors import EvenkeelError
from evenkeel.model.observation import BundleView, StepStart
from evenkeel.model.plan import Step
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.run import JournalEntry, PlanStatus, StepState


class Clock(Protocol):
    """Time, so that tests can control it."""

    def now(self) -> datetime: ...

    def monotonic_s(self) -> float:
        """Seconds that only ever rise, and go on while the machine is suspended."""
        ...

    def sleep(self, seconds: float) -> None: ...


class ApprovalJudge(Protocol):
    """Whose approvals count."""

    def require_counts(self, approval: Approval) -> None:
        """Refuse an approval that nobody signed whose key counts."""
        ...


class ClusterView(Protocol):
    """The cluster as it is now; reading changes nothing."""

    def incarnations(self, brokers: Collection[str]) -> Mapping[str, int]:
        """Those of the brokers that are registered, with their incarnations."""
        ...

    def changed_policies(self, planned: Mapping[str, PolicyVersion | None]) -> Sequence[str]:
        """Policy nodes that somebody else has changed, made or removed since then; None stands for no node."""
        ...

    def changed_groups(self, planned: Mapping[str, str], namespaces: Collection[str]) -> Sequence[str]:
        """Namespaces whose anti-affinity group is not the planned one, among these and whoever shares their groups."""
        ...

    def draining(self) -> frozenset[str]:
        """The brokers that an operator wants empty now: none of them may receive anything."""
        ...

    def stopped_by(self) -> str | None:
        """Who has pulled the kill switch, and why; None while it is not pulled."""
        ...

    def warnings(self) -> Sequence[str]:
        """What an operator should know about the cluster before a plan is applied to it."""
        ...

    def leader(self) -> str | None:
        """The broker that leads the cluster now, if there is one."""
        ...

    def boundaries(self, namespaces: Collection[str]) -> Mapping[str, frozenset[int]]:
        """The bundle boundaries of namespaces now; a namespace that is gone has none."""
        ...

    def look(self, bundles: Sequence[str]) -> Mapping[str, BundleView]:
        """Read bundles; from then on, until its next change, each of them is watched."""
        ...

    def next_changes(self, timeout_s: float) -> frozenset[str]:
        """Watched bundles that changed; waits at most this long for the first."""
        ...


class PlanStatusKeeper(Protocol):
    """Records the status of plans and tears down after runs that have ended; begins no steps."""

    def statuses(self) -> Mapping[str, PlanStatus]:
        """The status of every plan of the cluster, by its id."""
        ...

    def acquire(self, plan_id: str) -> int:
        """Take the fence and return the epoch; refuses while another writer lives."""
        ...

    def open(self, status: PlanStatus) -> Sequence[str]:
        """Restore what ended runs left behind, and record the plan's new status; returns warnings."""
        ...

    def release(self) -> None:
        """Let the fence go; the epoch is spent."""
        ...


class GuardedWriter(PlanStatusKeeper, Protocol):
    """The only way to change the cluster: every call fails once another writer holds the fence."""

    @property
    def opening_state(self) -> StepState:
        """The state of a journal entry when its step begins: APPLIED if effect and entry are one, else INTENDED."""
        ...

    def rehearse(self, steps: Sequence[Step]) -> None:
        """Refuse steps that access control would refuse; writes nothing."""
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

    def now(self) -> datetime:
        """The cluster's time as it was measured last; it runs on monotonic time, whatever this machine's clock does."""
        ...

    def require_steady_clock(self) -> None:
        """Raise if this machine's clock was set since it was last measured against the cluster's."""
        ...

    def require_no_migration(self) -> None:
        """Raise if brokers are leaving, or have left, the store that this writer writes to."""
        ...

    def pause_native_balancer(self) -> bool:
        """Keep Pulsar from moving and splitting bundles by itself until `close`; False where there is no need to."""
        ...

    def begin(self, starts: Sequence[StepStart]) -> Mapping[int, EvenkeelError]:
        """Begin steps and journal them; returns, by order, why some certainly did not begin.

        A RefusedError concerns one step: its bundle or its destination has changed. So does a NotDoneError: the step
        got lost on its way, and may begin once it is proved again. A FencedOutError, or any other error, ends the run.
        """
        ...

    def enforce_destination(self, step: Step) -> None:
        """Have the destination take the bundle of a step if nobody owns it, where the cluster does not see to that."""
        ...

    def collision_keys(self, step: Step) -> frozenset[str]:
        """Steps that share a key are never in flight together: the cluster would confuse them."""
        ...

    def unloads(self, step: Step) -> int:
        """How often this session's calls have unloaded the bundle of a step; 0 where steps are no unloads."""
        ...

    def conclude(self, entries: Sequence[JournalEntry]) -> None:
        """Journal what became of steps, all of them or none."""
        ...

    def close(self, status: PlanStatus) -> Sequence[str]:
        """Restore Pulsar's own balancer and record how the run ended; returns warnings."""
        ...


class ClusterConnector(Protocol):
    """Opens sessions with one cluster; whatever was held with an earlier session is not carried over."""

    def connect(self) -> AbstractContextManager[tuple[ClusterView, GuardedWriter]]:
        """Everything that a run needs, over a new session."""
        ...

    def connect_keeper(self) -> AbstractContextManager[PlanStatusKeeper]:
        """What teardown needs, over a new session; works while no broker is registered."""
        ...
