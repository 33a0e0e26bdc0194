"""Admin calls that had no effect, or half of one: the next run makes them again, or completes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from kazoo.exceptions import ConnectionLoss

from evenkeel.model.run import RunState, StepState
from evenkeel.stages.snapshot import take_snapshot
from support.plans import make_split, make_transfers, make_unload
from support.scenes import SETTINGS, Scene
from support.waiting import scaled

KINDS: dict[str, dict[str, Any]] = {
    "modular": {"kind": "modular"},
    "system topic": {"kind": "extensible", "has_system_topic_view": True},
}
IMPATIENT = {"admin_call_timeout_s": scaled(1.0), "unload_again_after_s": 1.0}
STEPS = {"transfer": lambda step: step, "unload": make_unload, "split": make_split}


def take_zookeeper_from_brokers(monkeypatch: pytest.MonkeyPatch, scene: Scene, *deeds: str) -> None:
    """Let brokers fail to do something as they do while they cannot reach ZooKeeper."""

    def fail(*_: object) -> None:
        raise ConnectionLoss

    manager = scene.fleet._running_manager()
    for deed in deeds:
        monkeypatch.setattr(manager, deed, fail)


@pytest.mark.parametrize(
    ("kind", "what"),
    # An unload on the other kind may end with the broker that it began with.
    [*(("modular", what) for what in STEPS), ("system topic", "transfer"), ("system topic", "split")],
)
def test_call_that_a_broker_answered_with_an_error_is_made_again_by_the_next_run(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, kind: str, what: str
) -> None:
    scene = stage(**KINDS[kind])
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    (transfer,) = make_transfers(scene.lake, manifest, 1)
    plan_id = scene.store([STEPS[what](transfer)])
    with monkeypatch.context() as patch:
        take_zookeeper_from_brokers(patch, scene, "unload", "split")
        for _ in range(2):
            first = scene.run(plan_id, step_deadline_s=scaled(1.0), **IMPATIENT)
            assert (first.state, [r.state for r in first.results]) == (RunState.STOPPED, [StepState.FAILED]), first
            assert f"the bundle is Owned, owned by {transfer.source}" in first.results[0].detail
    again = scene.run(plan_id, **IMPATIENT)
    assert (again.state, [r.state for r in again.results]) == (RunState.DONE, [StepState.SETTLED]), again
    assert [entry["epoch"] for entry in scene.journal(plan_id)] == [again.epoch]
    if what == "transfer":
        assert scene.fleet.owner_of(transfer.bundle) == transfer.destination


def test_bundle_that_a_failed_step_left_without_an_owner_is_looked_up_by_the_next_run(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage("modular", clients_look_up_after_s=600.0)
    plan_id = scene.plan(1)
    with monkeypatch.context() as patch:
        take_zookeeper_from_brokers(patch, scene, "_own")
        first = scene.run(plan_id, step_deadline_s=scaled(1.0), **IMPATIENT)
    (result,) = first.results
    assert (first.state, result.state) == (RunState.STOPPED, StepState.FAILED), first
    assert "owned by nobody" in result.detail
    again = scene.run(plan_id, **IMPATIENT)
    assert (again.state, [r.state for r in again.results]) == (RunState.DONE, [StepState.SETTLED]), again
    assert scene.fleet.owner_of(result.bundle) == result.destination


def test_step_that_ended_somewhere_else_stays_failed_and_is_not_called_again(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch
) -> None:
    scene = stage("modular")
    manifest = take_snapshot(scene.lake, scene.connection, SETTINGS)
    (transfer,) = make_transfers(scene.lake, manifest, 1)
    plan_id = scene.store([transfer])
    manager, cluster = scene.fleet._running_manager(), scene.fleet._cluster
    assert cluster is not None
    (third,) = set(scene.fleet.broker_ids) - {transfer.source, transfer.destination}
    with monkeypatch.context() as patch:
        # Whoever is about to own the bundle, the third broker is faster.
        own = manager._own  # type: ignore[attr-defined]
        patch.setattr(manager, "_own", lambda broker, bundle: own(cluster.brokers[third], bundle))
        first = scene.run(plan_id, **IMPATIENT)
    (result,) = first.results
    assert (first.state, result.state) == (RunState.STOPPED, StepState.FAILED), first
    assert f"the bundle went to {third}" in result.detail
    unloads = dict(scene.fleet.unloads())
    again = scene.run(plan_id, **IMPATIENT)
    assert (again.state, [r.state for r in again.results]) == (RunState.STOPPED, [StepState.FAILED]), again
    assert scene.fleet.unloads() == unloads
