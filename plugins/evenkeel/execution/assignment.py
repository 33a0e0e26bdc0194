"""What a run is given: the plan, the cluster as it is seen, the only way to change it, and what else to reckon with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from evenkeel.execution.decisions import DecisionLog
from evenkeel.model.plan import BrokerBalance, Plan, Step
from evenkeel.model.run import StepResult, StepState
from evenkeel.model.settings import Settings
from evenkeel.ports import Clock, ClusterView, GuardedWriter

LoadReader = Callable[[], Mapping[tuple[str, str], int]]


@dataclass(frozen=True, slots=True)
class Circumstances:
    """What a run has to reckon with besides its plan.

    `brokers` were registered when the plan was made. `after_loss` tells that ZooKeeper was away since. `known` are
    results of this very run under an earlier session.
    """

    brokers: frozenset[str] = frozenset()
    balances: Sequence[BrokerBalance] = ()
    until: datetime | None = None
    after_loss: bool = False
    known: Mapping[int, StepResult] = field(default_factory=dict)
    should_stop: Callable[[], bool] = lambda: False
    read_load: LoadReader | None = None
    on_progress: Callable[[StepResult], None] = lambda result: None


@dataclass(frozen=True, slots=True)
class Assignment:
    """One plan for one run, with everything that the run needs of the outside."""

    plan: Plan
    plan_id: str
    steps: Sequence[Step]
    view: ClusterView
    writer: GuardedWriter
    clock: Clock
    settings: Settings
    decisions: DecisionLog
    circumstances: Circumstances = field(default_factory=Circumstances)

    @property
    def is_dry_run(self) -> bool:
        """Whether steps are only proved, not begun."""
        return self.writer.opening_state is StepState.PROVED

    def now_ms(self) -> int:
        return round(self.clock.now().timestamp() * 1000)
