"""Switches that a dead writer left off come back with whatever runs next, and never over another hand's value."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.adapters.cluster.views import ZooKeeperClusterView
from evenkeel.adapters.fencing.native_balancer import SWITCHES
from evenkeel.model.errors import EvenkeelError, InputError, RefusedError
from evenkeel.model.observation import BundleView
from evenkeel.model.run import PlanStatus, RunState
from evenkeel.model.settings import Settings
from evenkeel.stages.restore_balancer import RestoredBalancer, restore_balancer, restore_unless_writing
from evenkeel.stages.snapshot import take_snapshot
from support.scenes import (
    PAUSED,
    SETTINGS,
    SWITCHES_OF_FLEET,
    Scene,
    die_in_mid_wave,
    once_paused,
    set_dynamic,
    warnings_of,
)
from support.waiting import wait_for

SHEDDING, SPLITTING = SWITCHES
AIRFLOW_KILLS_AFTER_S = 5.0
MOST_STOP_WAIT_S = 3.0


@pytest.fixture
def left_off(stage: Callable[..., Scene]) -> tuple[Scene, str]:
    """A cluster whose writer was killed while Pulsar's balancer was paused, and its session has ended."""
    scene = stage()
    plan_id = scene.plan(2)
    die_in_mid_wave(scene, plan_id)
    await_end_of_writer(scene)
    assert scene.switches() == PAUSED
    return scene, plan_id


def await_end_of_writer(scene: Scene) -> None:
    writer = f"{scene.connection.home}/writer"
    wait_for(lambda: scene.client.exists(writer) is None, "the dead writer's session has ended")


@pytest.mark.parametrize("restore", [restore_balancer, restore_unless_writing])
def test_switches_are_restored_and_it_is_told_since_when_and_by_which_plan(
    left_off: tuple[Scene, str], restore: Callable[..., list[RestoredBalancer]]
) -> None:
    scene, plan_id = left_off
    (restored,) = restore(scene.connection, SETTINGS)
    assert scene.switches() == SWITCHES_OF_FLEET
    assert restored.sentences() == [
        f"Pulsar's shedding and splitting have been off since {restored.since}: plan {plan_id[:12]} switched them off, "
        "and its writer is gone",
        f"{SPLITTING} is not set any more, as before",
        f"{SHEDDING} is true again",
    ]
    assert scene.status(plan_id).switches is None
    assert restore(scene.connection, SETTINGS) == [], "a second time there is nothing to do"
    assert scene.switches() == SWITCHES_OF_FLEET
    assert scene.run(plan_id).state is RunState.DONE, "the restored configuration is no new policy to the plan"


def test_nothing_is_restored_while_a_writer_lives(left_off: tuple[Scene, str]) -> None:
    scene, _ = left_off
    note = json.dumps({"holder": "host7:99:token", "plan_id": "cafe", "epoch": 8}).encode()
    scene.client.create(f"{scene.connection.home}/writer", note, ephemeral=True)
    assert restore_unless_writing(scene.connection, SETTINGS) == []
    with pytest.raises(RefusedError, match="another writer is at work: .*host7.*cafe"):
        restore_balancer(scene.connection, replace(SETTINGS, session_timeout_s=1.0))
    assert scene.switches() == PAUSED


def test_mistyped_cluster_is_refused(left_off: tuple[Scene, str]) -> None:
    scene, _ = left_off
    with pytest.raises(InputError, match="no cluster 'flete' under"):
        restore_balancer(replace(scene.connection, cluster="flete"), SETTINGS)
    assert scene.client.exists(f"{scene.connection.evenkeel_root}/flete") is None


def test_snapshot_tells_and_writes_nothing(left_off: tuple[Scene, str]) -> None:
    scene, plan_id = left_off
    (note, *_) = take_snapshot(scene.lake, scene.connection, SETTINGS).notes
    assert note.startswith("Pulsar's shedding and splitting have been off since 20")
    assert f"plan {plan_id[:12]} switched them off" in note
    assert "`evenkeel restore-balancer`" in note
    assert scene.switches() == PAUSED


def test_snapshot_in_the_middle_of_a_run_tells_nothing(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id, notes = scene.plan(2), []

    def look(view: ZooKeeperClusterView) -> None:
        notes.extend(take_snapshot(scene.lake, scene.connection, SETTINGS).notes)

    assert once_paused(scene, monkeypatch, look) == []
    assert scene.run(plan_id).state is RunState.DONE
    assert [note for note in notes if "shedding" in note] == []


@pytest.mark.parametrize("refused", ["expired", "not approved", "unknown"])
def test_plan_that_is_refused_restores_first(
    left_off: tuple[Scene, str], refused: str, caplog: pytest.LogCaptureFixture
) -> None:
    scene, plan_id = left_off
    wishes = {
        "expired": {"expires_at": datetime.now(UTC) - timedelta(seconds=1)},
        "not approved": {"is_approved": False},
    }
    wanted = scene.plan(1, **wishes[refused]) if refused in wishes else "nosuchplan"
    with suppress(EvenkeelError):
        scene.apply(wanted, dry_run=True)
    assert scene.switches() == PAUSED, "a dry run writes nothing"
    with pytest.raises(EvenkeelError):
        scene.apply(wanted)
    assert scene.switches() == SWITCHES_OF_FLEET
    assert f"plan {plan_id[:12]} switched them off" in caplog.text


def test_finished_plan_that_is_applied_again_restores_what_another_left_off(stage: Callable[..., Scene]) -> None:
    scene = stage()
    finished, killed = scene.plan(1), scene.plan(3)
    assert scene.run(finished).state is RunState.DONE
    die_in_mid_wave(scene, killed)
    await_end_of_writer(scene)
    assert scene.run(finished).state is RunState.DONE
    assert scene.switches() == SWITCHES_OF_FLEET


def test_next_run_tells_who_left_them_off(left_off: tuple[Scene, str]) -> None:
    scene, plan_id = left_off
    (warning,) = warnings_of(scene, scene.run(scene.plan(5)))
    assert f"plan {plan_id[:12]} switched them off, and its writer is gone; it is restored now" in warning


def by_another_hand(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, deed: Callable[[Scene], object]
) -> tuple[dict[str, str] | None, list[str]]:
    """Run a plan while somebody does something to the configuration; how it is afterwards, and the run's warnings."""
    scene = stage(hand_over_delay_s=0.2)
    plan_id = scene.plan(1)
    done = once_paused(scene, monkeypatch, lambda view: deed(scene))
    run = scene.run(plan_id)
    assert (done, run.state) == ([True], RunState.DONE)
    return scene.switches(), warnings_of(scene, run)


def test_switch_set_to_the_same_value_in_mid_run_stays_off_with_a_warning(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    switches, warnings = by_another_hand(stage, monkeypatch, lambda scene: set_dynamic(scene, **{SHEDDING: "false"}))
    assert switches == PAUSED, "which of the two was set cannot be told"
    assert warnings == [
        f"{SHEDDING} may have been set to false by somebody else during the run, so it stays false; if nobody did, "
        f"switch it back with `pulsar-admin brokers update-dynamic-config --config {SHEDDING} --value true`",
        f"{SPLITTING} may have been set to false by somebody else during the run, so it stays false; if nobody did, "
        f"switch it back with `pulsar-admin brokers delete-dynamic-config --config {SPLITTING}`",
    ]


def test_other_key_set_in_mid_run_explains_the_change_and_the_switches_come_back(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    switches, warnings = by_another_hand(stage, monkeypatch, lambda scene: set_dynamic(scene, ttlDurationDefault="60"))
    assert (switches, warnings) == ({**SWITCHES_OF_FLEET, "ttlDurationDefault": "60"}, [])


def test_other_key_does_not_hide_a_switch_that_was_set_too(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    def set_both(scene: Scene) -> None:
        set_dynamic(scene, ttlDurationDefault="60", **{SHEDDING: "false"})

    switches, warnings = by_another_hand(stage, monkeypatch, set_both)
    assert switches == {**PAUSED, "ttlDurationDefault": "60"}
    assert len(warnings) == 2


def test_one_switch_set_to_another_value_is_left_and_the_other_comes_back(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    switches, warnings = by_another_hand(stage, monkeypatch, lambda scene: set_dynamic(scene, **{SPLITTING: "true"}))
    assert switches == {**SWITCHES_OF_FLEET, SPLITTING: "true"}
    assert warnings == [f"{SPLITTING} was changed to true by somebody else during the run; it stays so"]


def test_configuration_that_was_made_again_is_somebody_elses(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    def make_again(scene: Scene) -> None:
        data, _ = scene.client.get(scene.switches_path)
        scene.client.delete(scene.switches_path)
        scene.client.create(scene.switches_path, data)
        scene.client.set(scene.switches_path, data)

    switches, warnings = by_another_hand(stage, monkeypatch, make_again)
    assert switches == PAUSED
    assert len(warnings) == 2


def test_status_of_an_earlier_version_is_restored_by_its_values(left_off: tuple[Scene, str]) -> None:
    scene, plan_id = left_off
    path = f"{scene.connection.home}/plans/{plan_id}"
    fields = json.loads(scene.client.get(path)[0])
    for name in ("since_ms", "others"):
        del fields["switches"][name]
    scene.client.set(path, json.dumps(fields).encode())
    at = PlanStatus.decode(scene.client.get(path)[0], path).at_ms
    (restored,) = restore_balancer(scene.connection, SETTINGS)
    assert datetime.fromisoformat(restored.since).timestamp() == at / 1000
    assert scene.switches() == SWITCHES_OF_FLEET


@pytest.mark.parametrize("has_node", [True, False])
def test_old_brokers_get_the_former_value_written_back(stage: Callable[..., Scene], has_node: bool) -> None:
    scene = stage("modular", broker_version="3.0.4")
    if not has_node:
        scene.client.delete(scene.switches_path)
    run = scene.run(scene.plan(2))
    assert run.state is RunState.DONE, run.detail
    assert scene.switches() == dict.fromkeys(SWITCHES, "true"), "3.0.4 would stay off if the keys were removed"


def test_run_that_is_told_to_stop_while_it_connects_does_not_pause_the_balancer(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id, looks = scene.plan(2), ZooKeeperClusterView.look

    def terminate_and_look(view: ZooKeeperClusterView, bundles: Sequence[str]) -> Mapping[str, BundleView]:
        monkeypatch.setattr(ZooKeeperClusterView, "look", looks)
        os.kill(os.getpid(), signal.SIGTERM)
        return looks(view, bundles)

    monkeypatch.setattr(ZooKeeperClusterView, "look", terminate_and_look)
    before = scene.client.exists(scene.switches_path).version
    run = scene.run(plan_id)
    assert (run.state, run.detail.partition(":")[0]) == (RunState.STOPPED, "the run was told to stop")
    assert scene.client.exists(scene.switches_path).version == before
    assert run.results == ()


def test_stopping_run_ends_before_airflow_kills_it() -> None:
    assert Settings().stop_wait_s <= MOST_STOP_WAIT_S < AIRFLOW_KILLS_AFTER_S
