"""Pulsar's own balancer is paused for the time of a run, and given back in every way out."""

from __future__ import annotations

import dataclasses
import json
import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta

import pytest

from evenkeel.adapters.cluster.views import ZooKeeperClusterView
from evenkeel.adapters.fencing.native_balancer import SWITCHES
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.model.policies import PolicyVersion
from evenkeel.model.run import RunState, StepState
from evenkeel.model.run_events import Decision
from support.approvals import apply_plan
from support.scenes import (
    PAUSED,
    SETTINGS,
    SWITCHES_OF_FLEET,
    Scene,
    decisions_of,
    die_in_mid_wave,
    expire,
    once_paused,
    set_dynamic,
    warnings_of,
)
from support.waiting import scaled

SETTINGS_ONE_AT_A_TIME = dataclasses.replace(SETTINGS, in_flight_steps=1)
FORMER = {"loadBalancerSheddingEnabled": "true", "brokerDeleteInactiveTopicsEnabled": "false"}


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, str] | None]:
    """What the configuration said while steps were under way; filled by `spy`."""
    return []


def spy(scene: Scene, seen: list[dict[str, str] | None], monkeypatch: pytest.MonkeyPatch) -> None:
    waits = ZooKeeperClusterView.next_changes

    def look_and_wait(view: ZooKeeperClusterView, timeout_s: float) -> frozenset[str]:
        seen.append(scene.switches())
        return waits(view, timeout_s)

    monkeypatch.setattr(ZooKeeperClusterView, "next_changes", look_and_wait)


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_configuration_that_was_absent_is_absent_again(
    stage: Callable[..., Scene], kind: str, seen: list[dict[str, str] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(kind)
    scene.client.delete(scene.switches_path)
    plan_id = scene.plan(3)
    spy(scene, seen, monkeypatch)
    run = scene.run(plan_id)
    assert run.state is RunState.DONE, run
    assert PAUSED in seen
    assert scene.switches() is None
    assert (scene.status(plan_id).state, scene.status(plan_id).switches) == (RunState.DONE, None)
    decisions = [event.decision for event in RunStore(scene.lake).read_events(run.run_id)]
    assert decisions.count(Decision.PAUSED) >= 1


def test_former_values_come_back_and_the_plan_does_not_take_that_for_a_new_policy(
    stage: Callable[..., Scene], seen: list[dict[str, str] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    scene.client.set(scene.switches_path, json.dumps(FORMER).encode())
    first, second = scene.plan(2), scene.plan(4)
    spy(scene, seen, monkeypatch)
    assert scene.run(first).state is RunState.DONE
    assert {**FORMER, **PAUSED} in seen
    assert scene.switches() == FORMER
    run = scene.run(second)
    assert run.state is RunState.DONE, "its snapshot is from before the first run paused and restored the switches"
    assert run.count(StepState.SETTLED) == 2
    assert scene.switches() == FORMER


def test_change_of_the_configuration_by_another_hand_still_stops_a_plan(stage: Callable[..., Scene]) -> None:
    scene = stage()
    scene.client.set(scene.switches_path, json.dumps(FORMER).encode())
    first, second = scene.plan(2), scene.plan(4)
    scene.run(first)
    scene.client.set(scene.switches_path, json.dumps(FORMER).encode())
    run = scene.run(second)
    assert run.state is RunState.STOPPED
    assert "/admin/configuration has changed since the snapshot" in run.detail


def test_switch_that_another_hand_changed_meanwhile_is_left_with_a_warning(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    scene.client.set(scene.switches_path, json.dumps(FORMER).encode())
    plan_id = scene.plan(1)
    once_paused(scene, monkeypatch, lambda view: set_dynamic(scene, loadBalancerAutoBundleSplitEnabled="true"))
    run = scene.run(plan_id)
    assert scene.switches() == {**FORMER, "loadBalancerAutoBundleSplitEnabled": "true"}
    warned = [e.detail for e in RunStore(scene.lake).read_events(run.run_id) if e.decision is Decision.WARNED]
    assert warned == [
        "loadBalancerAutoBundleSplitEnabled was changed to true by somebody else during the run; it stays so"
    ]


@pytest.mark.parametrize("former", [None, FORMER])
def test_next_run_of_any_plan_gives_back_what_a_dead_one_left(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, former: dict[str, str] | None
) -> None:
    scene = stage()
    if former is None:
        scene.client.delete(scene.switches_path)
    else:
        scene.client.set(scene.switches_path, json.dumps(former).encode())
    first, second = scene.plan(2), scene.plan(5)
    die_in_mid_wave(scene, first)
    assert scene.switches() == {**(former or {}), **PAUSED}
    assert scene.status(first).state is RunState.RUNNING
    run = scene.run(second)
    assert run.state is RunState.DONE, run.detail
    assert scene.switches() == former
    assert scene.status(first).state is RunState.LOST
    assert scene.run(first).state is RunState.DONE
    assert scene.switches() == former
    assert scene.status(first).state is RunState.DONE


def test_pausing_can_be_switched_off(
    stage: Callable[..., Scene], seen: list[dict[str, str] | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    spy(scene, seen, monkeypatch)
    assert scene.run(plan_id, pause_native_balancer=False).state is RunState.DONE
    assert [values for values in seen if values != SWITCHES_OF_FLEET] == []


def test_malformed_configuration_is_refused_and_left_alone(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(1)
    scene.client.set(scene.switches_path, b"[1]")
    run = scene.run(plan_id)
    assert run.state is RunState.STOPPED
    assert scene.client.get(scene.switches_path)[0] == b"[1]"


def test_signal_ends_a_run_in_order(stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    scene = stage(hand_over_delay_s=0.5)
    plan_id = scene.plan(6)
    waits = ZooKeeperClusterView.next_changes
    sent = threading.Event()

    def send_once(view: ZooKeeperClusterView, timeout_s: float) -> frozenset[str]:
        if not sent.is_set():
            sent.set()
            os.kill(os.getpid(), signal.SIGTERM)
        return waits(view, timeout_s)

    monkeypatch.setattr(ZooKeeperClusterView, "next_changes", send_once)
    former = signal.getsignal(signal.SIGTERM)
    run = scene.run(plan_id)
    assert (run.state, run.detail) == (
        RunState.STOPPED,
        "the run was told to stop: run the same command again to go on",
    )
    assert [result.state for result in run.results] == [StepState.SETTLED], "the step under way was waited for"
    assert scene.switches() == SWITCHES_OF_FLEET
    assert scene.client.exists(f"{scene.connection.home}/writer") is None
    assert signal.getsignal(signal.SIGTERM) is former
    again = scene.run(plan_id)
    assert (again.state, again.count(StepState.SETTLED)) == (RunState.DONE, 6)


def test_signal_before_the_first_step_lets_none_begin(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage()
    plan_id = scene.plan(2)
    compares = ZooKeeperClusterView.changed_policies

    def send(view: ZooKeeperClusterView, planned: Mapping[str, PolicyVersion | None]) -> Sequence[str]:
        os.kill(os.getpid(), signal.SIGTERM)
        return compares(view, planned)

    monkeypatch.setattr(ZooKeeperClusterView, "changed_policies", send)
    run = scene.run(plan_id)
    assert (run.state, run.results) == (RunState.STOPPED, ()), "whoever asks it to stop does not wait for steps"
    assert scene.switches() == SWITCHES_OF_FLEET


def test_window_that_ends_in_mid_wave_lets_no_further_step_begin(stage: Callable[..., Scene]) -> None:
    scene = stage(hand_over_delay_s=scaled(1.0))
    plan_id = scene.plan(8)
    until = datetime.now(UTC) + timedelta(seconds=2.5)
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS_ONE_AT_A_TIME, until=until)
    assert run.state is RunState.STOPPED
    assert "the window ended at" in run.detail
    assert 0 < len(run.results) < 8
    assert {result.state for result in run.results} == {StepState.SETTLED}
    begun = [e.at for e in RunStore(scene.lake).read_events(run.run_id) if e.decision is Decision.APPLIED]
    assert max(datetime.fromisoformat(at) for at in begun) < until
    assert scene.switches() == SWITCHES_OF_FLEET


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_run_tells_that_it_gave_pulsars_balancer_back(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    told = decisions_of(scene, scene.run(scene.plan(2)))
    assert told[-2:] == [Decision.RESTORED, Decision.ENDED]
    assert told.count(Decision.RESTORED) == 1


def test_run_that_changed_no_switch_does_not_tell_that_it_gave_one_back(stage: Callable[..., Scene]) -> None:
    scene = stage()
    told = decisions_of(scene, scene.run(scene.plan(1), pause_native_balancer=False))
    assert Decision.RESTORED not in told


@pytest.mark.parametrize("kind", ["extensible", "modular"])
@pytest.mark.parametrize("deleted", ["", "/plans"])
def test_switches_come_back_although_somebody_deletes_evenkeels_own_nodes(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, kind: str, deleted: str
) -> None:
    scene = stage(kind, hand_over_delay_s=0.3)
    scene.client.set(scene.switches_path, json.dumps(FORMER).encode())
    plan_id = scene.plan(3)
    target = f"{scene.connection.home}{deleted}" if deleted else scene.connection.evenkeel_root
    done = once_paused(scene, monkeypatch, lambda view: scene.client.delete(target, recursive=True))
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS_ONE_AT_A_TIME)
    assert (done, run.state) == ([True], RunState.STOPPED)
    assert scene.switches() == FORMER
    (warning,) = warnings_of(scene, run)
    assert warning.startswith(f"the status of plan {plan_id[:12]} was deleted during its run")
    assert decisions_of(scene, run).count(Decision.RESTORED) == 1
    status = scene.status(plan_id)
    assert (status.state, status.switches) == (RunState.STOPPED, None)
    assert scene.client.exists(f"{scene.connection.home}/writer") is None


def test_switches_that_nobody_knows_any_more_are_named_with_what_to_do(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(3)

    def expire_and_delete(view: ZooKeeperClusterView) -> None:
        expire(view)
        scene.client.delete(scene.connection.evenkeel_root, recursive=True)

    done = once_paused(scene, monkeypatch, expire_and_delete)
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS_ONE_AT_A_TIME)
    assert (done, run.state) == ([True], RunState.LOST)
    assert scene.switches() == PAUSED
    (warning,) = warnings_of(scene, run)
    assert all(switch in warning for switch in SWITCHES)
    assert "pulsar-admin brokers get-all-dynamic-config" in warning
    assert Decision.RESTORED not in decisions_of(scene, run)


def test_another_writer_in_the_deleted_ones_place_is_not_disturbed_and_the_switches_are_named(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(3)
    writer = f"{scene.connection.home}/writer"

    def delete_and_take_its_place(view: ZooKeeperClusterView) -> None:
        scene.client.delete(scene.connection.evenkeel_root, recursive=True)
        scene.client.create(writer, b"somebody", ephemeral=True, makepath=True)

    done = once_paused(scene, monkeypatch, delete_and_take_its_place)
    run = apply_plan(scene.lake, plan_id, scene.connection, SETTINGS_ONE_AT_A_TIME)
    assert (done, run.state) == ([True], RunState.STOPPED)
    assert scene.client.get(writer)[0] == b"somebody"
    (warning,) = warnings_of(scene, run)
    assert all(switch in warning for switch in SWITCHES)
