"""Blame: the owners of a bundle over time, through splits, with who moved it and why."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from pathlib import Path

import pytest

from evenkeel import __version__
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.adapters.lake.store import Lake
from evenkeel.model.errors import InputError
from evenkeel.model.run import RunRecord, RunState, StepResult, StepState
from evenkeel.model.timestamps import format_time
from evenkeel.stages.blame import blame_bundle
from support.lakes import CLUSTER, TAKEN_AT, make_broker, make_bundle, write_snapshot
from support.plans import make_step, store_plan

WHOLE = "acme/orders/0x00000000_0xffffffff"
HALF = "acme/orders/0x00000000_0x80000000"
OTHER = "acme/orders/0x80000000_0xffffffff"
NOW = TAKEN_AT + timedelta(hours=6)
DAY = timedelta(days=1)


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """A run moves the bundle from b1 to b2, its half is split off, then b2 dies and b3 gets it."""
    lake = Lake(str(tmp_path))
    brokers = [make_broker(f"b{number}:8080") for number in (1, 2, 3)]
    manifest = write_snapshot(lake, [make_bundle(WHOLE, "b1:8080")], brokers)
    step = make_step(0, make_bundle(WHOLE, "b1:8080"), "b2:8080", {"b1:8080": 1, "b2:8080": 1})
    plan_id = store_plan(lake, manifest, [step])
    began, ended = (format_time(TAKEN_AT + timedelta(minutes=minutes)) for minutes in (10, 11))
    result = StepResult(0, WHOLE, "b1:8080", "b2:8080", StepState.SETTLED, "", 0.1)
    RunStore(lake).write(
        RunRecord("run-1", plan_id, CLUSTER, 1, RunState.DONE, began, ended, False, (result,), "", __version__)
    )
    write_snapshot(lake, [make_bundle(WHOLE, "b2:8080")], brokers, taken_at=TAKEN_AT + timedelta(hours=1))
    halves = [make_bundle(name, "b2:8080") for name in (HALF, OTHER)]
    write_snapshot(lake, halves, brokers, taken_at=TAKEN_AT + timedelta(hours=2))
    moved = [dataclasses.replace(half, owner="b3:8080") for half in halves]
    write_snapshot(lake, moved, [brokers[0], brokers[2]], taken_at=TAKEN_AT + timedelta(hours=3))
    return lake


def test_bundle_is_followed_through_runs_splits_and_deaths(lake: Lake) -> None:
    found = blame_bundle(lake, CLUSTER, HALF, NOW, DAY)
    assert (found.first_owner, found.owner, found.snapshots) == ("b1:8080", "b3:8080", 4)
    told = [(move.bundle, move.destination, move.mover, move.run_id) for move in found.moves]
    assert told == [(WHOLE, "b2:8080", "evenkeel", "run-1"), (HALF, "b3:8080", "dead broker", None)]
    assert found.moves[0].reason == "the test moves it"
    assert found.moves[0].approval.startswith("approved by ")
    assert found.moves[1].evidence == "b2:8080 is no longer registered"


def test_bundle_that_no_snapshot_holds_is_refused(lake: Lake) -> None:
    with pytest.raises(InputError, match="no snapshot of the period holds acme/clicks"):
        blame_bundle(lake, CLUSTER, "acme/clicks/0x00000000_0xffffffff", NOW, DAY)
    with pytest.raises(InputError, match="no snapshot of the period"):
        blame_bundle(lake, CLUSTER, HALF, NOW + timedelta(days=9), DAY)
