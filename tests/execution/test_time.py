"""Time in a run: the clock is measured with each batch, and deadlines do not follow whoever sets it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

from evenkeel.adapters.brokers.admin_api import PulsarAdmin
from evenkeel.adapters.fencing.directives import KillSwitch
from evenkeel.adapters.fencing.journal import Answer, Journal
from evenkeel.adapters.fencing.step_writers import FencedWriter, ModularWriter
from evenkeel.adapters.lake.snapshots import SnapshotStore
from evenkeel.adapters.machine import SystemClock, monotonic_s
from evenkeel.adapters.zookeeper.session import open_session
from evenkeel.model.directives import Directive
from evenkeel.model.errors import EvenkeelError, RefusedError, UnavailableError
from evenkeel.model.plan import Step
from evenkeel.model.run import JournalEntry, RunState, StepState
from evenkeel.stages.snapshot import take_snapshot
from support.approvals import apply_plan
from support.scenes import SETTINGS, SWITCHES_OF_FLEET, Scene, meddle


def set_clock(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Set this machine's clock, as far as the writer can see."""
    patch.setattr(SystemClock, "now", lambda clock: datetime.now(UTC) + timedelta(seconds=seconds))


def test_clock_that_is_set_in_mid_run_stops_the_line(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id = scene.plan(6)
    meddle(monkeypatch, 1, lambda view: set_clock(monkeypatch, 60.0))
    state, results, why = scene.apply(plan_id)
    assert state is RunState.STOPPED
    assert "this machine's clock is 60.0 s off what it showed before, the limit is 5.0 s" in why
    assert [result.state for result in results] == [StepState.SETTLED], "what was in flight has settled; no more began"
    assert scene.switches() == SWITCHES_OF_FLEET


def test_clock_of_zookeeper_that_moves_in_mid_run_stops_the_line(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither clock of this machine moves, so only what ZooKeeper says of the batch can tell."""
    scene = stage()
    plan_id = scene.plan(6)
    begin = FencedWriter._journal_starts

    def begin_under_another_leader(writer: FencedWriter, starts: Sequence[object], effects: object) -> object:
        if len(starts) > 1:
            # A leader whose clock is off would do the same to the difference as this.
            writer._guards.fence.clock._clock = _Slow()
        return begin(writer, starts, effects)  # type: ignore[arg-type]

    class _Slow(SystemClock):
        def now(self) -> datetime:
            return super().now() - timedelta(seconds=60)

    monkeypatch.setattr(FencedWriter, "_journal_starts", begin_under_another_leader)
    state, results, why = scene.apply(plan_id)
    assert state is RunState.STOPPED
    assert "s off ZooKeeper's, the limit is 5.0 s" in why
    assert len(results) == 6, "the batch was written before it could be measured, and is accounted for"


def test_setting_the_clock_back_does_not_prolong_a_window(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id = scene.plan(6)
    settings = dataclasses.replace(SETTINGS, clock_offset_limit_s=1e6, step_deadline_s=1e6)
    until = datetime.now(UTC) + timedelta(seconds=1_000)

    def skip_ahead(view: object) -> None:
        # Twenty minutes pass, and somebody sets the clock back by an hour.
        before_s = monotonic_s()
        monkeypatch.setattr(SystemClock, "monotonic_s", lambda clock: before_s + 1_200.0)
        set_clock(monkeypatch, -3_600.0)

    meddle(monkeypatch, 1, skip_ahead)
    run = apply_plan(scene.lake, plan_id, scene.connection, settings, until=until)
    assert run.state is RunState.STOPPED
    assert "the window ended at" in run.detail
    assert run.count(StepState.SETTLED) == 1


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_snapshot_of_a_machine_whose_clock_is_off_is_refused_and_not_stored(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(seconds=90)

    scene = stage(kind)
    monkeypatch.setattr("evenkeel.adapters.brokers.broker_http.datetime", Ahead)
    with pytest.raises(RefusedError, match=r"clock is at least (88|89|90) s off the brokers', the limit is 5\.0 s"):
        take_snapshot(scene.lake, scene.connection, SETTINGS)
    assert SnapshotStore(scene.lake).ids(scene.connection.cluster) == []


def test_no_call_is_made_once_the_fence_is_gone(stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    """The kill switch falls between the journalled intent and the first call, as for a process that was suspended."""
    scene = stage("modular")
    plan_id = scene.plan(1)
    note = Journal.note_answers

    def note_then_stop(
        journal: Journal, entries: Sequence[JournalEntry], answers: Sequence[Answer]
    ) -> Mapping[int, EvenkeelError]:
        found = note(journal, entries, answers)
        stop(scene)
        return found

    calls: list[object] = []
    monkeypatch.setattr(PulsarAdmin, "_call", lambda *call, **_: calls.append(call))
    monkeypatch.setattr(Journal, "note_answers", note_then_stop)
    state, results, why = scene.apply(plan_id)
    assert (state, calls) == (RunState.STOPPED, []), why
    assert "stopped by ada: a test" in why
    assert [result.state for result in results] == [StepState.INTENDED]


def test_bundle_is_not_sent_to_its_destination_once_the_fence_is_gone(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kill switch falls before the lookup that would complete what an earlier run has begun."""
    scene = stage("modular", clients_look_up_after_s=600.0)
    plan_id = scene.plan(1)
    with monkeypatch.context() as patch:
        patch.setattr(PulsarAdmin, "take", fail_as_if_killed)
        first = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS)
    assert [result.state for result in first.results] == [StepState.INTENDED]
    enforce = ModularWriter.enforce_destination

    def stop_then_enforce(writer: ModularWriter, step: Step) -> None:
        stop(scene)
        enforce(writer, step)

    monkeypatch.setattr(ModularWriter, "enforce_destination", stop_then_enforce)
    run = scene.run(plan_id, admin_call_timeout_s=1.0)
    assert run.state is RunState.STOPPED, run
    assert scene.fleet.owner_of(first.results[0].bundle) is None, "nobody has taken the bundle"


def stop(scene: Scene) -> None:
    with open_session(scene.connection) as session:
        KillSwitch(session, scene.connection).pull(Directive("ada", "2026-01-31T03:00:00Z", "a test"))


def fail_as_if_killed(*call: object) -> None:
    raise UnavailableError("the writer is gone", "see why")
