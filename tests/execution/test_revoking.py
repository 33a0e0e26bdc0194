"""A plan that was revoked is not applied, and a writer that is applying it stops."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.model.errors import RefusedError, RunStoppedError
from evenkeel.model.run import RunState, StepResult, StepState
from evenkeel.stages.approve import approve_plan
from evenkeel.stages.revoke import revoke_plan
from support.approvals import ADA, UNSIGNED, apply_plan
from support.commands import evenkeel_here
from support.scenes import SETTINGS, SWITCHES_OF_FLEET, Scene

ONE_BY_ONE = dataclasses.replace(SETTINGS, in_flight_steps=1)


@pytest.fixture
def scene(stage: Callable[..., Scene]) -> Scene:
    return stage()


def fence_version(scene: Scene) -> int:
    return int(scene.client.exists(f"{scene.connection.home}/fence").version)


def test_revoked_plan_is_neither_applied_nor_approved(scene: Scene) -> None:
    plan_id = scene.plan(2)
    revoked = revoke_plan(scene.lake, plan_id, ADA, "wrong window", scene.connection)
    assert revoked.stopped is None
    with pytest.raises(RefusedError, match=r"was revoked by ada \(OS user ada on test-host\) at .*: wrong window"):
        scene.run(plan_id)
    assert scene.is_untouched
    with pytest.raises(RefusedError, match="was revoked by ada"):
        approve_plan(scene.lake, plan_id, ADA, "test", UNSIGNED)
    again = revoke_plan(scene.lake, plan_id, dataclasses.replace(ADA, name="bob"), "me too", scene.connection)
    assert again.description == revoked.description, "the first revocation stands"


@pytest.mark.parametrize("content", [b"", b"[]", b'{"schema_version": 9}'])
def test_revocation_that_cannot_be_read_stops_its_plan_too(scene: Scene, content: bytes) -> None:
    plan_id = scene.plan(1)
    file = Path(scene.lake.uri_of(f"plans/{plan_id}/revoked.json").removeprefix("file://"))
    file.write_bytes(content)
    with pytest.raises(RefusedError, match="was revoked by a record that cannot be read"):
        scene.run(plan_id)
    assert scene.is_untouched


def test_revocation_is_read_last_before_the_fence_is_taken(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_id = scene.plan(2)
    asked: list[str] = []
    find = PlanStore.find_revocation

    def revoke_after_the_first_look(plans: PlanStore, wanted: str) -> str | None:
        found = find(plans, wanted)
        if not asked:
            asked.append(wanted)
            revoke_plan(scene.lake, plan_id, ADA, "", None)
        return found

    monkeypatch.setattr(PlanStore, "find_revocation", revoke_after_the_first_look)
    with pytest.raises(RunStoppedError, match="the plan was revoked by ada"):
        scene.run(plan_id)
    assert scene.is_untouched


@pytest.mark.parametrize("is_reachable", [True, False], ids=["by the fence", "by the record"])
def test_writer_at_work_on_a_revoked_plan_stops_and_tears_down(scene: Scene, is_reachable: bool) -> None:
    plan_id = scene.plan(4)
    stopped: list[object] = []

    def revoke(result: StepResult) -> None:
        if result.state is StepState.SETTLED and not stopped:
            connection = scene.connection if is_reachable else None
            stopped.append(revoke_plan(scene.lake, plan_id, ADA, "consumers lag", connection).stopped)

    run = apply_plan(scene.lake, plan_id, scene.connection, ONE_BY_ONE, on_progress=revoke)
    assert (stopped != [None]) is is_reachable
    assert run.state is RunState.STOPPED
    assert "the plan was revoked by ada" in run.detail
    assert len(scene.journal(plan_id)) < 4
    assert scene.switches() == SWITCHES_OF_FLEET
    assert scene.status(plan_id).switches is None
    assert scene.client.exists(f"{scene.connection.home}/writer") is None
    assert scene.run(scene.plan(1)).state is RunState.DONE, "other plans are not stopped"


def test_writer_whose_fence_was_raised_says_that_its_plan_was_revoked(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id = scene.plan(4)
    done: list[int] = []

    def revoke(result: StepResult) -> None:
        if not done:
            done.append(1)
            assert revoke_plan(scene.lake, plan_id, ADA, "", scene.connection).stopped is not None
            # The lake is not asked any more: the fence alone stops the writer.
            monkeypatch.setattr(PlanStore, "find_revocation", lambda *_: None)

    run = apply_plan(scene.lake, plan_id, scene.connection, ONE_BY_ONE, on_progress=revoke)
    assert run.state is RunState.STOPPED
    assert "the plan was revoked by ada" in run.detail
    assert scene.switches() == SWITCHES_OF_FLEET


def test_writer_of_another_plan_is_left_alone(scene: Scene) -> None:
    revoked, applied = scene.plan(1), scene.plan(3)
    versions: list[int] = []

    def revoke(result: StepResult) -> None:
        if not versions:
            versions.append(fence_version(scene))
            assert revoke_plan(scene.lake, revoked, ADA, "", scene.connection).stopped is None
            assert fence_version(scene) == versions[0]

    run = apply_plan(scene.lake, applied, scene.connection, ONE_BY_ONE, on_progress=revoke)
    assert (run.state, len(versions)) == (RunState.DONE, 1)


def test_revoke_by_command_line_says_what_it_did(scene: Scene) -> None:
    plan_id = scene.plan(1)
    where = ("--lake", scene.lake.uri, "--cluster", scene.connection.cluster)
    unknown = evenkeel_here("revoke", "../x", *where)
    assert (unknown.code, unknown.out) == (1, "")
    offline = evenkeel_here("revoke", plan_id, *where, "--zookeeper", "127.0.0.1:1", "--reason", "wrong window")
    assert offline.code == 1
    assert "is revoked, but whether a writer is applying it is not known" in offline.err
    told = evenkeel_here("revoke", plan_id, *where, "--zookeeper", scene.connection.zookeeper)
    assert (told.code, "no writer was applying it" in told.out) == (0, True), told.err
    assert "wrong window" in told.out
    assert "revoked by" in evenkeel_here("show", plan_id, *where).out
