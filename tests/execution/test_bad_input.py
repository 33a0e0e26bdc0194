"""What is wrong with a cluster or a journal is one sentence, and no step is written."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Self

import pytest
from kazoo.security import make_acl

from evenkeel.adapters.fencing.step_writers import TransactionWriter
from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.model.errors import EvenkeelError, InputError, RefusedError, RunStoppedError
from evenkeel.model.plan import Step
from evenkeel.model.run import RunState
from support.scenes import Scene

# Whoever cleans up may still remove the nodes: that is a right of their parents.
READ_ONLY = [make_acl("world", "anyone", read=True)]


@pytest.fixture
def scene(stage: Callable[..., Scene]) -> Scene:
    return stage()


def steps_of(scene: Scene, plan_id: str) -> list[Step]:
    return list(PlanStore(scene.lake).load(plan_id).steps)


def bundle_path(scene: Scene, step: Step) -> str:
    return f"{scene.connection.pulsar_root}/service_unit_state/{step.bundle}"


def versions(scene: Scene, plan_id: str) -> list[int]:
    return [scene.client.exists(bundle_path(scene, step)).version for step in steps_of(scene, plan_id)]


def assert_refused_untouched(scene: Scene, plan_id: str, error: type[EvenkeelError], sentence: str) -> None:
    """A run is refused with a sentence, and nothing of Pulsar's or of Evenkeel's was written."""
    before, switches = versions(scene, plan_id), scene.switches()
    with pytest.raises(error, match=sentence):
        scene.run(plan_id)
    assert (versions(scene, plan_id), scene.switches()) == (before, switches)
    assert scene.is_untouched


@pytest.mark.parametrize("data", [b"", b"no json", b"[]", b'{"state":"Merging","timestamp":1,"versionId":1}', b"\xff"])
def test_malformed_record_is_refused_by_its_path_before_anything_is_written(scene: Scene, data: bytes) -> None:
    plan_id = scene.plan(4)
    step = steps_of(scene, plan_id)[2]
    scene.client.set(bundle_path(scene, step), data)
    sentence = f"{step.bundle} is not a service-unit record .*: wait until Pulsar's leader repairs"
    assert_refused_untouched(scene, plan_id, InputError, sentence)


def test_foreign_names_beside_the_records_do_not_matter(scene: Scene) -> None:
    plan_id = scene.plan(1)
    scene.client.create(f"{scene.connection.pulsar_root}/service_unit_state/not/a/bundle", b"x", makepath=True)
    assert scene.run(plan_id).state is RunState.DONE


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        (
            "000000",
            json.dumps({"schema_version": 99}).encode(),
            "has schema version 99, this version of Evenkeel reads 1",
        ),
        ("000000", b"\xffgarbage", "is not a journal entry"),
        ("notes", b"{}", "steps/notes is not a journal entry: remove what Evenkeel did not write"),
    ],
)
def test_journal_of_another_version_is_refused_before_the_fence_is_taken(
    scene: Scene, name: str, data: bytes, sentence: str
) -> None:
    plan_id = scene.plan(2)
    scene.client.create(f"{scene.connection.home}/plans/{plan_id}/steps/{name}", data, makepath=True)
    before = versions(scene, plan_id)
    with pytest.raises(InputError, match=sentence):
        scene.run(plan_id)
    assert versions(scene, plan_id) == before
    assert scene.client.exists(f"{scene.connection.home}/fence") is None


def test_journal_entry_of_another_plan_is_refused(scene: Scene) -> None:
    first, second = scene.plan(1), scene.plan(3)
    scene.run(first)
    (entry,) = scene.journal(first)
    foreign = entry | {"order": 1, "bundle": "elsewhere/ns/0x00000000_0xffffffff"}
    path = f"{scene.connection.home}/plans/{second}/steps/000001"
    scene.client.create(path, json.dumps(foreign).encode(), makepath=True)
    run = scene.run(second)
    assert (run.state, run.results) == (RunState.STOPPED, ())
    assert "journal entry 1 does not belong to this plan" in run.detail


def test_missing_home_is_made(scene: Scene) -> None:
    plan_id = scene.plan(1)
    assert scene.is_untouched
    assert scene.run(plan_id).state is RunState.DONE


def test_home_that_must_not_be_written_is_refused(scene: Scene) -> None:
    plan_id = scene.plan(1)
    scene.client.create(scene.connection.evenkeel_root, b"", acl=READ_ONLY, makepath=True)
    before = versions(scene, plan_id)
    with pytest.raises(RunStoppedError, match="forbids this user to write .*/evenkeel/.*: grant it permission"):
        scene.run(plan_id)
    assert versions(scene, plan_id) == before


def test_record_that_must_not_be_written_is_refused_before_anything_is_written(scene: Scene) -> None:
    plan_id = scene.plan(4)
    third = bundle_path(scene, steps_of(scene, plan_id)[2])
    scene.client.set_acls(third, READ_ONLY)
    assert_refused_untouched(
        scene, plan_id, RunStoppedError, f"forbids this user to write {third}: grant it permission"
    )


def test_switches_that_must_not_be_written_are_refused_before_anything_is_written(scene: Scene) -> None:
    plan_id = scene.plan(2)
    scene.client.set_acls(scene.switches_path, READ_ONLY)
    assert_refused_untouched(scene, plan_id, RunStoppedError, f"forbids this user to write {scene.switches_path}")


def test_rights_that_are_taken_away_in_mid_run_stop_it_at_the_step(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id = scene.plan(4)
    first = bundle_path(scene, steps_of(scene, plan_id)[0])
    rehearse = TransactionWriter.rehearse

    def rehearse_then_forbid(writer: TransactionWriter, steps: Sequence[Step]) -> None:
        rehearse(writer, steps)
        scene.client.set_acls(first, READ_ONLY)

    monkeypatch.setattr(TransactionWriter, "rehearse", rehearse_then_forbid)
    before = versions(scene, plan_id)
    run = scene.run(plan_id)
    assert run.state is RunState.STOPPED
    assert f"forbids this user to write {first}: grant it permission" in run.detail
    assert versions(scene, plan_id) == before
    assert scene.journal(plan_id) == []


def test_root_that_does_not_exist_is_refused(scene: Scene) -> None:
    plan_id = scene.plan(1)
    elsewhere = dataclasses.replace(scene.connection, pulsar_root="/nowhere", evenkeel_root="/nowhere/evenkeel")
    with pytest.raises(EvenkeelError, match="no broker is registered under /nowhere/loadbalance/brokers: check"):
        dataclasses.replace(scene, connection=elsewhere).run(plan_id)
    assert scene.client.exists("/nowhere") is None


class LateDatetime(datetime):
    """A clock that is a minute behind."""

    @classmethod
    def now(cls, tz: tzinfo | None = None) -> Self:
        return super().now(tz) - timedelta(seconds=60)


def test_clock_that_is_off_is_refused_before_anything_is_written(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    plan_id = scene.plan(2)
    monkeypatch.setattr("evenkeel.adapters.brokers.broker_http.datetime", LateDatetime)
    assert_refused_untouched(
        scene,
        plan_id,
        RefusedError,
        "clock is at least (59|60) s off the brokers', the limit is 5.0 s: synchronise the clocks",
    )


def test_clock_of_which_brokers_say_nothing_is_refused_by_the_fence_before_the_first_step(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan_id = scene.plan(2)
    before = versions(scene, plan_id)
    monkeypatch.setattr("evenkeel.adapters.brokers.broker_http._clock_offset_s", lambda *_: None)
    late = timedelta(seconds=60)
    monkeypatch.setattr("evenkeel.adapters.machine.SystemClock.now", lambda clock: datetime.now(UTC) - late)
    with pytest.raises(RefusedError, match="clock is .* s off ZooKeeper's, the limit is 5.0 s: synchronise the clocks"):
        scene.run(plan_id)
    assert versions(scene, plan_id) == before
    assert scene.client.exists(f"{scene.connection.home}/writer") is None
