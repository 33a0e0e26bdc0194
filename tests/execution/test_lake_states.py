"""No state of the lake, and no leftover in ZooKeeper, keeps a plan from being applied or a run from ending in order."""

from __future__ import annotations

import json
import logging
import os
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.model.errors import InputError, RefusedError, RunStoppedError
from evenkeel.model.run import RunState, StepResult
from evenkeel.model.run_events import Decision
from evenkeel.stages.rollback import plan_rollback
from evenkeel.stages.runs import list_runs
from support.approvals import apply_plan
from support.scenes import SETTINGS, Scene, decisions_of

SMALLEST_FILE = 1_000


@pytest.fixture
def scene(stage: Callable[..., Scene]) -> Scene:
    return stage()


def root(scene: Scene) -> Path:
    return Path(urlsplit(scene.lake.uri).path)


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may grow beyond a thousand bytes, as on a disk that is full."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALLEST_FILE, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(
    "leave",
    [
        pytest.param(lambda folder: None, id="no run.json"),
        pytest.param(lambda folder: (folder / "run.json").write_bytes(b""), id="empty"),
        pytest.param(lambda folder: (folder / "run.json").write_bytes(b'{"schema_version": 99}'), id="other version"),
        pytest.param(lambda folder: (folder / "run.json").mkdir(), id="folder"),
        pytest.param(lambda folder: os.mkfifo(folder / "run.json"), id="FIFO"),
    ],
)
def test_broken_run_blocks_no_command(
    scene: Scene, leave: Callable[[Path], object], caplog: pytest.LogCaptureFixture
) -> None:
    plan_id = scene.plan(2)
    broken = root(scene) / "runs" / f"{'a' * 12}-000001"
    broken.mkdir(parents=True)
    leave(broken)
    run = scene.run(plan_id)
    assert run.state is RunState.DONE
    runs = RunStore(scene.lake)
    assert runs.load("latest", scene.connection.cluster).run_id == run.run_id
    assert [each.run_id for each in list_runs(scene.lake, None, scene.connection)] == [run.run_id]
    assert plan_rollback(scene.lake, run.run_id, scene.connection, SETTINGS).steps
    if (broken / "run.json").exists():
        assert f"run {broken.name} is skipped" in caplog.text


def test_broken_plan_does_not_hide_the_latest_one(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    plan_id = scene.plan(1)
    broken = root(scene) / "plans" / ("f" * 64)
    broken.mkdir()
    (broken / "plan.json").write_bytes(b"{}")
    assert PlanStore(scene.lake).resolve("latest", scene.connection.cluster) == plan_id
    assert PlanStore(scene.lake).resolve("latest") == plan_id
    assert "plan ffffffffffff is skipped" in caplog.text


def test_lake_that_is_full_is_refused_before_the_fence_is_taken(scene: Scene) -> None:
    plan_id = scene.plan(2)
    with full_disk(), pytest.raises(RefusedError, match="cannot write to the lake .* .File too large"):
        scene.run(plan_id)
    assert scene.is_untouched
    assert not [name for name in os.listdir(root(scene)) if name.startswith(".probe")]
    assert scene.run(plan_id).state is RunState.DONE


def test_lake_that_breaks_in_mid_run_ends_the_run_in_order(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    plan_id = scene.plan(3)

    def break_lake(result: StepResult) -> None:
        # Where the folder of all runs should be, there is a file now.
        (root(scene) / "runs").touch()

    with pytest.raises(RunStoppedError, match=r"has ended \(done\), but its record is in the log only") as caught:
        apply_plan(scene.lake, plan_id, scene.connection, SETTINGS, on_progress=break_lake)
    assert "keep the log" in str(caught.value)
    (line,) = [r.getMessage() for r in caplog.records if r.getMessage().startswith("the record of run")]
    told = json.loads(line.partition(": ")[2])
    assert (told["plan_id"], told["state"], len(told["results"])) == (plan_id, "done", 3)
    assert scene.status(plan_id).state is RunState.DONE, "ZooKeeper knows"
    assert scene.switches() == {"loadBalancerSheddingEnabled": "true"}
    (root(scene) / "runs").unlink()
    assert scene.run(plan_id).state is RunState.DONE, "nothing is left to do, and nothing is in the way"


def test_lost_session_is_read_from_zookeeper_whatever_the_lake_says(scene: Scene) -> None:
    plan_id = scene.plan(2)
    scene.run(plan_id)
    path = f"{scene.connection.home}/plans/{plan_id}"
    status = replace(scene.status(plan_id), state=RunState.LOST)
    scene.client.set(path, status.encode())
    run = scene.run(scene.plan(1))
    assert Decision.WAITED in decisions_of(scene, run), "ZooKeeper says that the last run lost its session"
    calm = scene.run(scene.plan(1))
    assert Decision.WAITED not in decisions_of(scene, calm)


@pytest.mark.parametrize("data", [b"\xff", b"[]", json.dumps({"schema_version": 7}).encode()])
def test_status_of_an_old_plan_that_cannot_be_read_is_a_warning(
    scene: Scene, data: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    plan_id = scene.plan(2)
    old = f"{scene.connection.home}/plans/{'9' * 64}"
    scene.client.create(old, data, makepath=True)
    assert scene.run(plan_id).state is RunState.DONE
    assert "the status of plan 999999999999 is left alone" in caplog.text
    assert scene.client.get(old)[0] == data


def test_status_of_this_plan_that_cannot_be_read_is_refused_before_the_fence_is_taken(scene: Scene) -> None:
    plan_id = scene.plan(2)
    scene.client.create(f"{scene.connection.home}/plans/{plan_id}", b'{"schema_version": 7}', makepath=True)
    with pytest.raises(InputError, match="has schema version 7"):
        scene.run(plan_id)
    assert scene.client.exists(f"{scene.connection.home}/fence") is None


def test_leftover_below_an_old_plan_is_a_warning_and_does_not_stop_the_line(
    scene: Scene, caplog: pytest.LogCaptureFixture
) -> None:
    old, new = scene.plan(1), scene.plan(2)
    scene.run(old)
    leftover = f"{scene.connection.home}/plans/{old}/notes/of/somebody"
    scene.client.create(leftover, b"", makepath=True)
    caplog.set_level(logging.WARNING)
    run = scene.run(new, journal_kept_days=0.0)
    assert run.state is RunState.DONE
    assert f"old nodes of plan {old[:12]} stay" in caplog.text
    assert scene.client.exists(leftover) is not None
