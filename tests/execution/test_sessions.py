"""Sessions that are cut, suspended and lost in the midst of a run, and what a run does then."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable

import pytest

from evenkeel.adapters.lake.plans import PlanStore
from evenkeel.adapters.lake.runs import RunStore
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import RunStoppedError
from evenkeel.model.run import RunState, StepState
from evenkeel.model.run_events import Decision, rebuild_run
from evenkeel.model.service_unit import ServiceUnitRecord
from support.approvals import apply_plan
from support.proxies import CuttingProxy
from support.scenes import SETTINGS, SWITCHES_OF_FLEET, Scene, decisions_of, expire, meddle
from support.waiting import eventually


def require_each_step_once(scene: Scene, plan_id: str) -> None:
    for step in PlanStore(scene.lake).load(plan_id).steps:
        path = f"{scene.connection.pulsar_root}/service_unit_state/{step.bundle}"
        record = ServiceUnitRecord.decode(scene.client.get(path)[0], path)
        assert record.destination == step.destination
        assert record.version_id == (step.expected_version_id or 0) + 3, "one transfer is three changes"


def test_lost_session_ends_the_run_and_the_next_one_goes_on_after_safe_mode(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(5)
    with monkeypatch.context() as patch:
        assert meddle(patch, 1, expire) == []
        first = scene.run(plan_id)
    assert first.state is RunState.LOST
    assert "has expired: check that ZooKeeper is healthy" in first.detail
    assert Decision.SESSION_LOST in decisions_of(scene, first)
    second = scene.run(plan_id, safe_mode_wait_s=1.0)
    assert (second.state, second.count(StepState.SETTLED)) == (RunState.DONE, 5), second
    assert second.epoch == first.epoch + 1
    assert Decision.WAITED in decisions_of(scene, second)
    require_each_step_once(scene, plan_id)
    third = scene.run(scene.plan(1))
    assert Decision.WAITED not in decisions_of(scene, third), "the last writer before this one ended well"


def test_reconnecting_run_takes_a_new_session_and_a_new_epoch_and_goes_on(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(5)
    meddle(monkeypatch, 2, expire)
    run = scene.run(plan_id, session_expired_policy="reconnect", in_flight_steps=2)
    assert (run.state, run.count(StepState.SETTLED), run.epoch) == (RunState.DONE, 5, 3), run
    told = decisions_of(scene, run)
    assert (told.count(Decision.SESSION_LOST), told.count(Decision.WAITED)) == (2, 2)
    assert told.count(Decision.FENCED_IN) == 3
    require_each_step_once(scene, plan_id)
    assert scene.switches() == SWITCHES_OF_FLEET
    assert rebuild_run(RunStore(scene.lake).read_events(run.run_id)) == run


def test_run_that_loses_too_many_sessions_ends_resumable(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(4)
    with monkeypatch.context() as patch:
        meddle(patch, 100, expire)
        run = scene.run(plan_id, session_expired_policy="reconnect", session_expired_retries=1)
    assert (run.state, run.epoch) == (RunState.LOST, 3), "two sessions for steps, a third one for teardown"
    assert scene.switches() == SWITCHES_OF_FLEET
    again = scene.run(plan_id)
    assert (again.state, again.count(StepState.SETTLED)) == (RunState.DONE, 4)
    require_each_step_once(scene, plan_id)


def test_suspended_session_begins_nothing_and_goes_on_when_it_is_back(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, zookeeper: EmbeddedZooKeeper
) -> None:
    scene = stage(hand_over_delay_s=0.1)
    plan_id = scene.plan(6)
    settings = dataclasses.replace(SETTINGS, session_timeout_s=8.0, in_flight_steps=2)
    with CuttingProxy(zookeeper.connect_string) as proxy:
        meddle(monkeypatch, 2, lambda view: proxy.go_deaf(1.0))
        connection = dataclasses.replace(scene.connection, zookeeper=proxy.connect_string)
        run = apply_plan(scene.lake, plan_id, connection, settings)
    assert (run.state, run.count(StepState.SETTLED), run.epoch) == (RunState.DONE, 6, 1), run
    require_each_step_once(scene, plan_id)


def kill(scene: Scene, broker: str) -> None:
    scene.fleet.kill_broker(broker)
    path = f"{scene.connection.pulsar_root}/loadbalance/brokers/{broker}"
    assert eventually(lambda: scene.client.exists(path) is None)


def test_broker_that_stays_away_keeps_the_run_from_beginning(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(3)
    kill(scene, "b03.fleet:8080")
    with pytest.raises(RunStoppedError, match="broker b03.fleet:8080 has not registered again within 1 s: bring it"):
        scene.run(plan_id, safe_mode_deadline_s=1.0)
    assert scene.is_untouched


def test_run_waits_in_safe_mode_for_a_broker_that_comes_back(stage: Callable[..., Scene]) -> None:
    scene = stage()
    plan_id = scene.plan(24)
    kill(scene, "b03.fleet:8080")
    threading.Timer(1.5, scene.fleet.restart_broker, ["b03.fleet:8080"]).start()
    run = scene.run(plan_id, safe_mode_wait_s=0.2)
    assert run.state is RunState.DONE, run.detail
    assert Decision.WAITED in decisions_of(scene, run)
    touched = [r for r in run.results if "b03.fleet:8080" in (r.source, r.destination)]
    assert touched
    assert {result.state for result in touched} == {StepState.SKIPPED}, "it is another incarnation now"
