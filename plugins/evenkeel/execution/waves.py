"""The wave loop: every wave begins with proofs, settles, and must leave a healthy cluster before the next begins."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from itertools import groupby

from evenkeel.execution.account import Account
from evenkeel.execution.assignment import Assignment
from evenkeel.execution.departures import Departures
from evenkeel.execution.flights import Flights
from evenkeel.execution.inspection import Inspection
from evenkeel.execution.stop_signs import StopSigns
from evenkeel.model.errors import RefusedError, UnavailableError
from evenkeel.model.plan import Step
from evenkeel.model.run_events import Decision

MOST_TRIES = 3


class Waves:
    """The plan's steps in their order, wave by wave."""

    def __init__(
        self,
        assignment: Assignment,
        account: Account,
        flights: Flights,
        stop_signs: StopSigns,
        inspection: Inspection,
    ) -> None:
        self._assignment = assignment
        self._account = account
        self._flights = flights
        self._stop_signs = stop_signs
        self._inspection = inspection
        self._departures = Departures(assignment, account, flights)

    def apply(self) -> None:
        """Apply all waves; a step that already has a result is not come to again."""
        waves = [list(wave) for _, wave in groupby(self._assignment.steps, key=lambda step: step.wave)]
        left = [[step for step in wave if self._account.result_of(step) is None] for wave in waves]
        if any(left):
            # What ailed the cluster when an earlier run stopped is not healed by applying the plan again.
            self._inspection.require_health()
        for wave in filter(None, left):
            self._apply_wave(wave)

    def _apply_wave(self, wave: Sequence[Step]) -> None:
        """Begin a wave's steps, a few at a time, wait until all have settled, and see that the cluster is well."""
        self._require_same_policies()
        self._stop_signs.require_may_begin()
        if self._assignment.writer.pause_native_balancer():
            self._assignment.decisions.tell(Decision.PAUSED)
        waiting, tries = deque(wave), Counter[int]()
        while waiting or self._flights:
            room = min(self._assignment.settings.in_flight_steps - len(self._flights), len(waiting))
            if room > 0:
                self._stop_signs.require_may_begin()
                lost = self._departures.begin([waiting.popleft() for _ in range(room)])
                tries.update(step.order for step in lost)
                _require_few_tries(tries)
                waiting.extendleft(reversed(lost))
            self._stop_signs.require_no_signal()
            self._flights.progress()
        self._inspection.require_health()
        self._assignment.decisions.tell(Decision.WAVE_SETTLED, f"wave {wave[0].wave}")

    def _require_same_policies(self) -> None:
        changed = self._assignment.view.changed_policies(self._assignment.plan.policy_versions)
        if changed:
            raise RefusedError(f"the policy {changed[0]} has changed since the snapshot", "plan again")


def _require_few_tries(tries: Counter[int]) -> None:
    for order, count in tries.items():
        if count >= MOST_TRIES:
            raise UnavailableError(
                f"step {order} got lost {count} times on its way to ZooKeeper",
                "see that the connection to ZooKeeper holds, then apply the plan again to go on",
            )
