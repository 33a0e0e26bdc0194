"""Who moved a bundle: a run of Evenkeel, a broker that died, Pulsar's balancer, or a person; with the evidence.

Runs and brokers leave records, so the first two are certain. Pulsar writes no trace that tells its balancer from an
administrator's unload. What speaks for either is whether the balancer was switched on, and whether the source was
busier than the mean, since the balancer takes bundles only from there.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from evenkeel.model.audit import BundleMove, Mover, OwnerChange
from evenkeel.model.run import RunRecord, StepResult, StepState
from evenkeel.model.snapshot import Broker, BrokerState
from evenkeel.model.timestamps import parse_time

_BEGUN = (StepState.SETTLED, StepState.APPLIED, StepState.INTENDED, StepState.FAILED)


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a snapshot says about brokers, and whether Pulsar's dynamic configuration switches shedding off."""

    brokers: Mapping[str, Broker]
    is_shedding_off: bool

    @classmethod
    def of(cls, brokers: Iterable[Broker], is_shedding_off: bool) -> ClusterState:
        return cls({broker.broker_id: broker for broker in brokers}, is_shedding_off)

    def usage_of(self, broker_id: str) -> float | None:
        """The cpu that a broker uses, as a share of its limit."""
        broker = self.brokers.get(broker_id)
        if broker is None or broker.cpu_usage_percent is None or not broker.cpu_limit_percent:
            return None
        return broker.cpu_usage_percent / broker.cpu_limit_percent

    @property
    def mean_usage(self) -> float | None:
        known = [usage for broker in self.brokers if (usage := self.usage_of(broker)) is not None]
        return sum(known) / len(known) if known else None


class MoverFinder:
    """Names the mover of a change of owner; `states` are of the snapshots that the changes name."""

    def __init__(self, runs: Iterable[RunRecord], states: Mapping[str, ClusterState]) -> None:
        self._states = states
        self._steps: dict[str, list[tuple[datetime, datetime, RunRecord, StepResult]]] = defaultdict(list)
        real = sorted((run for run in runs if not run.dry_run), key=lambda run: run.started_at)
        for run in real:
            began_at, ended_at = parse_time(run.started_at), parse_time(run.ended_at)
            for result in run.results:
                if result.state in _BEGUN and result.earlier_epoch is None:
                    self._steps[result.bundle].append((began_at, ended_at, run, result))

    def find(self, change: OwnerChange) -> BundleMove:
        mover, run_id, evidence = (
            self._find_run(change) or self._find_death(change) or self._tell_balancer_from_person(change)
        )
        return BundleMove(
            bundle=change.bundle,
            source=change.source,
            destination=change.destination,
            earlier_at=change.earlier_at,
            seen_at=change.seen_at,
            moved_bytes_per_s=change.moved_bytes_per_s,
            is_return=change.is_return,
            mover=str(mover),
            run_id=run_id,
            evidence=evidence,
        )

    def _find_run(self, change: OwnerChange) -> tuple[Mover, str | None, str] | None:
        for began_at, ended_at, run, result in self._steps.get(change.bundle, ()):
            is_meanwhile = began_at <= change.seen_at and ended_at >= change.earlier_at
            is_this = result.destination in (None, change.destination)
            if is_meanwhile and is_this:
                return Mover.EVENKEEL, run.run_id, f"step {result.order} of run {run.run_id}: {result.state}"
        return None

    def _find_death(self, change: OwnerChange) -> tuple[Mover, str | None, str] | None:
        before, after = self._states.get(change.earlier_snapshot_id), self._states.get(change.snapshot_id)
        if before is None or after is None:
            return None
        then, now = before.brokers.get(change.source), after.brokers.get(change.source)
        if now is None:
            return Mover.DEAD_BROKER, None, f"{change.source} is no longer registered"
        if now.state == BrokerState.INACTIVE:
            return Mover.DEAD_BROKER, None, f"{change.source} is inactive"
        if then is not None and then.incarnation != now.incarnation:
            return Mover.DEAD_BROKER, None, f"{change.source} has restarted: it has registered anew"
        return None

    def _tell_balancer_from_person(self, change: OwnerChange) -> tuple[Mover, str | None, str]:
        before = self._states.get(change.earlier_snapshot_id)
        if before is None:
            return Mover.UNKNOWN, None, "the snapshot before it cannot be read"
        if before.is_shedding_off:
            return Mover.PERSON, None, "no run moved it, its owner lives, and Pulsar's shedding was off"
        usage, mean = before.usage_of(change.source), before.mean_usage
        if usage is None or mean is None:
            return Mover.UNKNOWN, None, "no run moved it, its owner lives, and nobody reported how busy it was"
        compared = f"its owner used {100 * usage:.0f} % of its cpu, the mean was {100 * mean:.0f} %"
        if usage > mean:
            return Mover.BALANCER, None, f"likely: no run moved it, Pulsar's shedding was on, and {compared}"
        return Mover.PERSON, None, f"likely: no run moved it, and {compared}: the balancer leaves such brokers alone"


def last_move(moves: Sequence[BundleMove], bundle: str, after: datetime) -> BundleMove | None:
    """The last known move of a bundle after a moment; `moves` are the oldest first."""
    found = [move for move in moves if move.bundle == bundle and move.seen_at >= after]
    return found[-1] if found else None
