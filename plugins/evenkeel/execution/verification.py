"""Predicted against realised: is every bundle where the plan says, what do the brokers carry, and who lost clients?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from evenkeel.execution.measured_load import BrokerCheck, describe_measured_load
from evenkeel.execution.producers import ProducerChanges
from evenkeel.model.figures import PoolFigures
from evenkeel.model.plan import BrokerBalance, Step, StepKind
from evenkeel.model.run import RunRecord, StepState


@dataclass(frozen=True, slots=True)
class Verification:
    """The result of comparing a run's cluster with its plan.

    `deviations` say where the cluster is not as planned, `findings` what was measured. `silent_brokers` have reported
    no load since the run.
    """

    run_id: str
    plan_id: str
    snapshot_id: str
    settled: int
    planned: int
    deviations: tuple[str, ...]
    brokers: tuple[BrokerCheck, ...]
    findings: tuple[str, ...] = ()
    silent_brokers: tuple[str, ...] = ()
    brokers_outside_band: tuple[str, ...] = ()

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
    pools: Sequence[PoolFigures] = (),
    producers: ProducerChanges | None = None,
) -> Verification:
    """Compare owners, loads and producers of a new snapshot with what a plan promised."""
    changes = producers or ProducerChanges()
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
            row.band_limit,
        )
        for row in predicted
    )
    measured = {broker for broker, _ in realised}
    return Verification(
        run_id=run.run_id,
        plan_id=run.plan_id,
        snapshot_id=snapshot_id,
        settled=run.count(StepState.SETTLED),
        planned=len(steps),
        deviations=(*deviations, *changes.silenced),
        brokers=checks,
        findings=(*describe_measured_load(checks, predicted, pools), *changes.fewer),
        silent_brokers=tuple(sorted({row.broker_id for row in predicted} - measured)),
        brokers_outside_band=tuple(sorted({check.broker_id for check in checks if check.is_above_band})),
    )
