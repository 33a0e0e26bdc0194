"""A command whose session is lost for good clears up with a fresh one before it ends; it begins no step any more."""

from __future__ import annotations

import dataclasses
import logging
import os
import signal
from collections.abc import Callable

import pytest

from evenkeel.adapters.cluster.views import ZooKeeperClusterView
from evenkeel.adapters.fencing.native_balancer import SWITCHES
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.run import RunRecord, RunState, StepState
from support.approvals import apply_plan
from support.proxies import CuttingProxy
from support.scenes import SETTINGS, SWITCHES_OF_FLEET, Scene, expire, meddle, warnings_of
from support.waiting import eventually

NEVER_S = 80_000.0
OFF = dict.fromkeys(SWITCHES, "false")
LEFT_OFF = "Pulsar's switches may still be off; the next run of any plan will restore them"
ONE_AT_A_TIME = dataclasses.replace(SETTINGS, in_flight_steps=1)


def is_writer_there(scene: Scene) -> bool:
    return scene.client.exists(f"{scene.connection.home}/writer") is not None


def require_cleared_up(scene: Scene, plan_id: str, run: RunRecord) -> None:
    status = scene.status(plan_id)
    assert scene.switches() == SWITCHES_OF_FLEET
    assert (status.state, status.switches, status.epoch) == (run.state, None, run.epoch)
    assert not is_writer_there(scene)
    assert warnings_of(scene, run) == []


@pytest.mark.parametrize("kind", ["extensible", "modular"])
def test_command_that_lost_its_session_puts_pulsars_switches_back_and_stays_resumable(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    scene = stage(kind, hand_over_delay_s=0.3)
    plan_id = scene.plan(4)
    with monkeypatch.context() as patch:
        meddle(patch, 1, expire)
        run = apply_plan(scene.lake, plan_id, scene.connection, ONE_AT_A_TIME)
    assert (run.state, run.epoch) == (RunState.LOST, 2), "the epoch that cleared up is the run's last"
    require_cleared_up(scene, plan_id, run)
    assert len(scene.journal(plan_id)) == 1, "nothing began after the loss"
    again = scene.run(plan_id, admin_call_timeout_s=1.0)
    assert (again.state, again.count(StepState.SETTLED)) == (RunState.DONE, 4), again


def test_kill_switch_that_is_pulled_meanwhile_does_not_keep_it_from_clearing_up(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(4)

    def expire_and_stop(view: ZooKeeperClusterView) -> None:
        expire(view)
        transaction = scene.client.transaction()
        transaction.create(f"{scene.connection.home}/stop", b'{"who": "ada", "reason": "a test"}')
        transaction.set_data(f"{scene.connection.home}/fence", b"stopped by ada")
        assert transaction.commit()

    meddle(monkeypatch, 1, expire_and_stop)
    run = apply_plan(scene.lake, plan_id, scene.connection, ONE_AT_A_TIME)
    assert run.state is RunState.LOST
    require_cleared_up(scene, plan_id, run)
    assert scene.client.exists(f"{scene.connection.home}/stop") is not None
    assert len(scene.journal(plan_id)) == 1


def test_command_that_was_overtaken_leaves_the_status_of_the_later_run_alone(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=0.1)
    plan_id = scene.plan(3)
    later: list[RunRecord] = []

    def overtake(view: ZooKeeperClusterView) -> None:
        expire(view)
        later.append(scene.run(plan_id))

    meddle(monkeypatch, 1, overtake)
    run = scene.run(plan_id)
    assert (run.state, later[0].state) == (RunState.LOST, RunState.DONE)
    assert (run.epoch, later[0].epoch) == (1, 2), "there was nothing left to take an epoch for"
    assert (scene.status(plan_id).state, scene.status(plan_id).epoch) == (RunState.DONE, 2)
    assert scene.switches() == SWITCHES_OF_FLEET


def test_living_writer_is_not_disturbed_by_clearing_up(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(3)
    writer = f"{scene.connection.home}/writer"

    def expire_and_take_its_place(view: ZooKeeperClusterView) -> None:
        expire(view)
        assert eventually(lambda: not is_writer_there(scene))
        scene.client.create(writer, b"somebody", ephemeral=True)

    with monkeypatch.context() as patch:
        meddle(patch, 1, expire_and_take_its_place)
        run = scene.run(plan_id)
    assert (run.state, run.epoch) == (RunState.LOST, 1)
    (warning,) = warnings_of(scene, run)
    assert warning.startswith("Pulsar's switches may still be off; the next run of any plan will restore them (another")
    assert scene.client.get(writer)[0] == b"somebody"
    scene.client.delete(writer)
    assert scene.run(plan_id).state is RunState.DONE
    assert scene.switches() == SWITCHES_OF_FLEET


def test_teardown_waits_for_zookeeper_and_for_the_end_of_its_own_old_session(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, zookeeper: EmbeddedZooKeeper
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(4)
    with CuttingProxy(zookeeper.connect_string) as proxy:
        meddle(monkeypatch, 1, lambda view: proxy.go_deaf(SETTINGS.session_timeout_s + 1.0))
        connection = dataclasses.replace(scene.connection, zookeeper=proxy.connect_string, timeout_s=1.0)
        run = apply_plan(scene.lake, plan_id, connection, ONE_AT_A_TIME)
    assert run.state is RunState.LOST
    require_cleared_up(scene, plan_id, run)


class SignalsOnTeardown(logging.Handler):
    """Asks this process to stop once it says that it tears down."""

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage().startswith("tearing down"):
            os.kill(os.getpid(), signal.SIGTERM)


@pytest.mark.parametrize("is_told_to_stop", [False, True])
def test_zookeeper_that_stays_away_or_a_signal_ends_the_waiting_with_a_warning(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, zookeeper: EmbeddedZooKeeper, is_told_to_stop: bool
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(4)
    handler = SignalsOnTeardown() if is_told_to_stop else logging.NullHandler()
    logging.getLogger("evenkeel.execution.teardown").addHandler(handler)
    settings = dataclasses.replace(SETTINGS, safe_mode_deadline_s=NEVER_S if is_told_to_stop else 1.0)
    try:
        with CuttingProxy(zookeeper.connect_string) as proxy, monkeypatch.context() as patch:
            meddle(patch, 1, lambda view: proxy.go_deaf(NEVER_S))
            connection = dataclasses.replace(scene.connection, zookeeper=proxy.connect_string, timeout_s=1.0)
            run = apply_plan(scene.lake, plan_id, connection, settings)
    finally:
        logging.getLogger("evenkeel.execution.teardown").removeHandler(handler)
    assert run.state is RunState.LOST
    (warning,) = warnings_of(scene, run)
    assert warning.startswith(f"{LEFT_OFF} (ZooKeeper")
    assert scene.switches() == OFF
    assert scene.run(plan_id).state is RunState.DONE
    assert scene.switches() == SWITCHES_OF_FLEET
