"""A run that is told to stop while a broker does not answer: it does not wait for that broker."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from evenkeel.fleet.admin_api import Response
from evenkeel.model.errors import RunStoppedError
from evenkeel.model.run import RunState
from support.scenes import PAUSED, SWITCHES_OF_FLEET, Scene
from support.waiting import scaled

HASTY = {"broker_answer_timeout_s": scaled(30.0), "stop_wait_s": 0.1}
"""A broker has far longer for its answer than a run that stops waits for anything."""


@contextmanager
def told_to_stop_by(scene: Scene, is_wanted: Callable[[str], bool]) -> Iterator[list[str]]:
    """Send SIGTERM when a broker gets the first request of that kind, and let none of these have an answer."""
    server = scene.fleet._http
    assert server is not None
    respond, is_over = server.respond, threading.Event()
    held: list[str] = []

    def hold(method: str, target: str, body: bytes) -> Response | None:
        if not is_wanted(target):
            return respond(method, target, body)
        held.append(target)
        if len(held) == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        is_over.wait()
        return None

    server.respond = hold  # type: ignore[method-assign]
    try:
        yield held
    finally:
        server.respond = respond  # type: ignore[method-assign]
        is_over.set()


def test_run_that_is_told_to_stop_before_it_has_the_fence_does_not_wait_for_a_broker(
    stage: Callable[..., Scene],
) -> None:
    scene = stage()
    plan_id, silent = scene.plan(1), scene.fleet.broker_ids[1]
    with (
        told_to_stop_by(scene, lambda target: silent in target) as held,
        pytest.raises(RunStoppedError, match="the run was told to stop: run the same command again to go on"),
    ):
        scene.run(plan_id, **HASTY)
    assert len(held) == 1, "nothing more was asked"
    assert scene.is_untouched


def test_run_that_is_told_to_stop_in_mid_wave_puts_the_switches_back_without_waiting_for_a_broker(
    stage: Callable[..., Scene],
) -> None:
    """On a cluster with the system-topic view owners are read from the brokers themselves."""
    scene = stage(has_system_topic_view=True)
    plan_id, silent = scene.plan(3), scene.fleet.broker_ids[1]

    def is_owners_of_silent(target: str) -> bool:
        return target.endswith("ownedNamespaces") and silent in target and scene.switches() == PAUSED

    with told_to_stop_by(scene, is_owners_of_silent) as held:
        run = scene.run(plan_id, **HASTY)
        assert len(held) == 1, "it is not asked again"
        assert (run.state, scene.switches()) == (RunState.STOPPED, SWITCHES_OF_FLEET)
    assert "the run was told to stop" in run.detail
    assert scene.run(plan_id, admin_call_timeout_s=scaled(1.0)).state is RunState.DONE
