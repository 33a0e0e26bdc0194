"""The mover of a bundle: runs and dead brokers are certain, the rest is concluded and says so."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from evenkeel.auditing.movers import ClusterState, MoverFinder
from evenkeel.model.audit import Mover, OwnerChange
from evenkeel.model.run import RunRecord, RunState, StepResult, StepState
from evenkeel.model.timestamps import format_time
from support.lakes import CLUSTER, TAKEN_AT, make_broker

BUNDLE = "acme/orders/0x00000000_0xffffffff"
BEFORE, AFTER = TAKEN_AT, TAKEN_AT + timedelta(minutes=5)


def make_change(**fields: Any) -> OwnerChange:
    change = OwnerChange("acme/orders", BUNDLE, "b1:8080", "b2:8080", "s1", "s2", BEFORE, AFTER, 10, 3, False)
    return dataclasses.replace(change, **fields)


def make_run(began: timedelta, destination: str | None = "b2:8080", state: StepState = StepState.SETTLED) -> RunRecord:
    result = StepResult(0, BUNDLE, "b1:8080", destination, state, "")
    began_at, ended_at = TAKEN_AT + began, TAKEN_AT + began + timedelta(minutes=1)
    return RunRecord(
        "r1", "p1", CLUSTER, 1, RunState.DONE, format_time(began_at), format_time(ended_at), False, (result,), "", "1"
    )


def find(runs: list[RunRecord], is_off: bool = False, now: dict[str, Any] | None = None, busy: float = 700.0) -> Any:
    quiet = [make_broker("b2:8080"), make_broker("b3:8080")]
    before = ClusterState.of([make_broker("b1:8080", cpu_usage_percent=busy), *quiet], is_off)
    owner = [] if now is None else [make_broker("b1:8080", **now)]
    finder = MoverFinder(runs, {"s1": before, "s2": ClusterState.of([*owner, *quiet], is_off)})
    move = finder.find(make_change())
    return move.mover, move.run_id


def test_step_of_a_run_between_the_snapshots_moved_it() -> None:
    assert find([make_run(timedelta(minutes=2))], now={}) == (Mover.EVENKEEL, "r1")


@pytest.mark.parametrize(
    "run",
    [
        make_run(timedelta(hours=-1)),
        make_run(timedelta(minutes=6)),
        make_run(timedelta(minutes=2), "b3:8080"),
        make_run(timedelta(minutes=2), state=StepState.SKIPPED),
        dataclasses.replace(make_run(timedelta(minutes=2)), dry_run=True),
    ],
    ids=["earlier", "later", "elsewhere", "skipped", "dry run"],
)
def test_run_that_cannot_have_moved_it_is_not_blamed(run: RunRecord) -> None:
    assert find([run], now={}) == (Mover.BALANCER, None)


@pytest.mark.parametrize(
    "now", [None, {"state": "Inactive"}, {"incarnation": 2}], ids=["gone", "inactive", "restarted"]
)
def test_broker_that_died_lost_its_bundles(now: dict[str, Any] | None) -> None:
    assert find([], now=now) == (Mover.DEAD_BROKER, None)


def test_person_moved_it_where_the_balancer_was_off_or_leaves_brokers_alone() -> None:
    assert find([], is_off=True, now={}) == (Mover.PERSON, None)
    assert find([], now={}, busy=100.0) == (Mover.PERSON, None)
