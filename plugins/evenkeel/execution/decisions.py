"""Every decision of a run, recorded twice: as a structured log line, and as an event for the audit record."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenkeel.model.canonical import short_id
from evenkeel.model.plan import Step
from evenkeel.model.run import StepResult
from evenkeel.model.run_events import Decision, RunEvent
from evenkeel.model.service_unit import ServiceUnitRecord
from evenkeel.model.timestamps import format_time
from evenkeel.ports import Clock

log = logging.getLogger("evenkeel.decisions")


class DecisionLog:
    """What one run decided, in order; it outlives the sessions that the run goes through."""

    def __init__(self, clock: Clock, plan_id: str) -> None:
        self._clock = clock
        self._plan_id = plan_id
        self._events: list[RunEvent] = []
        self.epoch = 0

    @property
    def events(self) -> Sequence[RunEvent]:
        return self._events

    def tell(self, decision: Decision, detail: str = "", facts: Mapping[str, Any] | None = None) -> None:
        """Record a decision about the run as a whole."""
        self._put(RunEvent(format_time(self._clock.now()), self.epoch, decision, detail, facts=facts))

    def warn(self, sentences: Iterable[str]) -> None:
        """Record what somebody should look at, though the run does not stop for it."""
        for sentence in sentences:
            log.warning("%s", sentence)
            self.tell(Decision.WARNED, sentence)

    def tell_step(
        self,
        step: Step,
        result: StepResult,
        before: ServiceUnitRecord | None = None,
        after: ServiceUnitRecord | None = None,
    ) -> None:
        """Record what became of a step, with the service-unit records before and after where the cluster keeps them."""
        self._put(
            RunEvent(
                at=format_time(self._clock.now()),
                epoch=self.epoch,
                decision=Decision(result.state.value),
                detail=result.detail,
                order=step.order,
                kind=step.kind,
                bundle=step.bundle,
                source=step.source,
                destination=step.destination,
                seconds=result.seconds,
                earlier_epoch=result.earlier_epoch,
                before=None if before is None else before.encode().decode(),
                after=None if after is None else after.encode().decode(),
            )
        )

    def _put(self, event: RunEvent) -> None:
        self._events.append(event)
        log.info(
            "decision=%r plan=%s epoch=%d step=%s bundle=%s destination=%s detail=%r",
            event.decision.value,
            short_id(self._plan_id),
            event.epoch,
            "-" if event.order is None else event.order,
            event.bundle or "-",
            event.destination or "-",
            event.detail,
        )
