"""Clearing up after a run that has ended, beside writers that come and go meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from evenkeel.adapters.machine import SystemClock
from evenkeel.execution.decisions import DecisionLog
from evenkeel.execution.teardown import teardown
from evenkeel.model.errors import RefusedError
from evenkeel.model.run import NativeSwitches, PlanStatus, RunState
from evenkeel.model.run_events import Decision

SWITCHES = NativeSwitches({"shedding": "true"}, {"shedding": "false"}, made_node=False)
RUNNING = PlanStatus("a", "me", 4, RunState.RUNNING, 0, {}, switches=SWITCHES)
ENDED = replace(RUNNING, state=RunState.LOST, switches=None)


@dataclass
class Keeper:
    """Statuses in memory; `rival` is what another writer writes while this one waits for the fence."""

    found: dict[str, PlanStatus]
    rival: PlanStatus | None = None
    is_held: bool = False
    told: list[str] = field(default_factory=list)

    def statuses(self) -> Mapping[str, PlanStatus]:
        return self.found

    def acquire(self, plan_id: str) -> int:
        self.told.append("acquire")
        if self.rival is not None:
            self.found[self.rival.plan_id] = self.rival
        if self.is_held:
            raise RefusedError("another writer is at work", "wait")
        return 9

    def open(self, status: PlanStatus) -> Sequence[str]:
        self.told.append("open")
        self.found[status.plan_id] = status
        return ()

    def release(self) -> None:
        self.told.append("release")


def clear(keeper: Keeper, *told: Decision) -> DecisionLog:
    decisions = DecisionLog(SystemClock(), "a")
    decisions.epoch = ENDED.epoch
    for decision in told:
        decisions.tell(decision)
    teardown(keeper, ENDED, decisions)
    return decisions


def test_what_a_run_left_is_cleared_up_under_a_new_epoch() -> None:
    keeper = Keeper({"a": RUNNING})
    assert clear(keeper).epoch == 9
    assert keeper.found == {"a": replace(ENDED, epoch=9)}
    assert keeper.told == ["acquire", "open", "release"]


def test_switches_that_an_older_run_of_another_plan_left_are_cleared_up_too() -> None:
    keeper = Keeper({"b": replace(RUNNING, plan_id="b", epoch=3)})
    clear(keeper)
    assert keeper.told == ["acquire", "open", "release"]


@pytest.mark.parametrize("found", [{}, {"a": ENDED}, {"a": replace(RUNNING, epoch=5)}])
def test_nothing_is_taken_where_nothing_is_left_or_a_later_writer_has_come(found: dict[str, PlanStatus]) -> None:
    keeper = Keeper(dict(found))
    assert clear(keeper).epoch == ENDED.epoch
    assert (keeper.told, keeper.found) == ([], found)


def test_writer_that_came_and_went_in_the_last_moment_keeps_its_status() -> None:
    later = replace(ENDED, epoch=8, state=RunState.DONE)
    keeper = Keeper({"a": RUNNING}, later)
    clear(keeper)
    assert keeper.found == {"a": later}
    assert keeper.told == ["acquire", "release"]


def test_living_writer_is_an_answer_once_it_has_cleared_up_and_a_refusal_before() -> None:
    clear(Keeper({"a": RUNNING}, replace(RUNNING, epoch=8), is_held=True))
    with pytest.raises(RefusedError):
        clear(Keeper({"a": RUNNING}, is_held=True))


def told_by(decisions: DecisionLog) -> list[Decision]:
    return [event.decision for event in decisions.events]


def test_clearing_up_tells_that_pulsars_balancer_was_given_back() -> None:
    assert told_by(clear(Keeper({"a": RUNNING}))) == [Decision.FENCED_IN, Decision.RESTORED]
    assert told_by(clear(Keeper({"a": replace(RUNNING, switches=None)}))) == [Decision.FENCED_IN]


@pytest.mark.parametrize("found", [{}, {"a": replace(ENDED, epoch=1, state=RunState.DONE)}])
def test_status_that_was_deleted_with_the_switches_off_is_warned_of(found: dict[str, PlanStatus]) -> None:
    assert told_by(clear(Keeper(dict(found)), Decision.PAUSED)) == [Decision.PAUSED, Decision.WARNED]


@pytest.mark.parametrize("found", [{"a": ENDED}, {"a": replace(ENDED, epoch=5)}])
def test_status_that_is_there_is_not_warned_of(found: dict[str, PlanStatus]) -> None:
    assert told_by(clear(Keeper(dict(found)), Decision.PAUSED)) == [Decision.PAUSED]


def test_switches_that_were_given_back_before_the_status_was_deleted_are_not_warned_of() -> None:
    told = (Decision.PAUSED, Decision.RESTORED)
    assert told_by(clear(Keeper({}), *told)) == list(told)
