"""Predicted against realised: did every bundle land where the plan says, and what did it do to the load?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.model.plan import BrokerBalance, Step, StepKind
from evenkeel.model.run import RunRecord, StepState


@dataclass(frozen=True, slots=True)
class BrokerCheck:
    """One resource of one broker: what it carried, what the plan predicted, and what it carries now."""

    broker_id: str
    resource: str
    limit: int
    before: int
    predicted: int
    realised: int | None

    @property
    def error(self) -> float | None:
        """How far the prediction is off, as a part of the broker's limit."""
        if self.realised is None or self.limit == 0:
            return None
        return round((self.realised - self.predicted) / self.limit, 6)


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of comparing a run's cluster with its plan."""

    run_id: str
    plan_id: str
    snapshot_id: str
    settled: int
    planned: int
    deviations: tuple[str, ...]
    brokers: tuple[BrokerCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether the realised placement is the planned one."""
        return not self.deviations and self.settled == self.planned

    def to_json(self) -> dict[str, Any]:
        brokers = [asdict(broker) | {"error": broker.error} for broker in self.brokers]
        return asdict(self) | {"passed": self.passed, "brokers": brokers}


def verify_placement(
    run: RunRecord,
    steps: Sequence[Step],
    predicted: Sequence[BrokerBalance],
    snapshot_id: str,
    owner_of: Mapping[str, str | None],
    realised: Mapping[tuple[str, str], int],
) -> Verification:
    """Compare owners and loads of a new snapshot with what a plan promised."""
    transfers = [step for step in steps if step.kind == StepKind.TRANSFER]
    deviations = tuple(
        f"{step.bundle} is owned by {owner_of.get(step.bundle) or 'nobody'}, planned is {step.destination}"
        for step in transfers
        if owner_of.get(step.bundle) != step.destination
    )
    checks = tuple(
        BrokerCheck(
            row.broker_id,
            row.resource,
            row.limit,
            row.used_before,
            row.used_after,
            realised.get((row.broker_id, row.resource)),
        )
        for row in predicted
    )
    return Verification(
        run.run_id, run.plan_id, snapshot_id, run.count(StepState.SETTLED), len(steps), deviations, checks
    )
