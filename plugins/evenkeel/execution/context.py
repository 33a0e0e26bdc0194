"""What a run is given: the plan, the cluster to apply it to, and the circumstances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from evenkeel.execution.decisions import DecisionLog
from evenkeel.model.plan import BrokerBalance, Plan, Step
from evenkeel.model.run import StepResult
from evenkeel.model.settings import Settings
from evenkeel.ports import Clock, ClusterConnector, ClusterView, GuardedWriter

LoadReader = Callable[[], Mapping[tuple[str, str], int]]


@dataclass(frozen=True, slots=True)
class RunTask:
    """The plan to apply, and what stays the same through all sessions of its run."""

    plan: Plan
    plan_id: str
    steps: Sequence[Step]
    cluster: ClusterConnector
    clock: Clock
    settings: Settings
    decisions: DecisionLog
    is_dry_run: bool = False


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The circumstances of a run.

    `brokers` were registered when the plan was made. `after_loss` means that ZooKeeper was away since. `known` are
    results of this very run under an earlier session. `revoked_by` says who has revoked the plan, if anybody has.
    """

    brokers: frozenset[str] = frozenset()
    balances: Sequence[BrokerBalance] = ()
    until: datetime | None = None
    after_loss: bool = False
    known: Mapping[int, StepResult] = field(default_factory=dict)
    should_stop: Callable[[], bool] = lambda: False
    revoked_by: Callable[[], str | None] = lambda: None
    read_load: LoadReader | None = None
    on_progress: Callable[[StepResult], None] = lambda result: None


@dataclass(frozen=True, slots=True)
class RunContext:
    """A task within one session: the cluster as it is seen, and the only way to change it."""

    task: RunTask
    view: ClusterView
    writer: GuardedWriter
    options: RunOptions = field(default_factory=RunOptions)

    @property
    def plan(self) -> Plan:
        return self.task.plan

    @property
    def plan_id(self) -> str:
        return self.task.plan_id

    @property
    def steps(self) -> Sequence[Step]:
        return self.task.steps

    @property
    def clock(self) -> Clock:
        return self.task.clock

    @property
    def settings(self) -> Settings:
        return self.task.settings

    @property
    def decisions(self) -> DecisionLog:
        return self.task.decisions

    def now_ms(self) -> int:
        """The cluster's time in milliseconds, for whatever is written to the cluster."""
        return round(self.writer.now().timestamp() * 1000)
