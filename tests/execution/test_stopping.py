"""The kill switch on a running fleet: it names the writer that it stopped, proves it, and reaches every root."""

from __future__ import annotations

import getpass
import os
import signal
import socket
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest
from kazoo.security import make_acl

from evenkeel.adapters.cluster.views import ZooKeeperClusterView
from evenkeel.model.errors import InputError, RefusedError
from evenkeel.model.run import RunState
from evenkeel.stages.kill_switch import Stop, resume_writing, stop_writing
from evenkeel.stages.snapshot import take_snapshot
from support.approvals import apply_plan
from support.scenes import SETTINGS, SWITCHES_OF_FLEET, Scene, once_paused
from support.waiting import scaled

KINDS = ("extensible", "modular")
# The test removes the nodes again.
READ_AND_REMOVE = [make_acl("world", "anyone", read=True, delete=True)]


def stop(scene: Scene, wait_s: float = 20.0) -> Stop:
    return stop_writing(scene.connection, "ada", "a test", SETTINGS, scaled(wait_s))


@pytest.mark.parametrize("kind", KINDS)
def test_another_clusters_name_is_refused_by_the_brokers_word(stage: Callable[..., Scene], kind: str) -> None:
    scene = stage(kind)
    scene.client.create(f"{scene.connection.pulsar_root}/admin/clusters/sister", b"{}")
    with pytest.raises(InputError, match="belongs to cluster 'fleet', not 'sister'"):
        stop(replace(scene, connection=replace(scene.connection, cluster="sister")))
    assert scene.is_untouched


def test_cluster_whose_brokers_are_gone_can_be_stopped(stage: Callable[..., Scene]) -> None:
    scene = stage()
    scene.fleet.stop()
    assert stop(scene).own.pulled.is_new


def test_nobody_was_writing(stage: Callable[..., Scene]) -> None:
    scene = stage()
    scene.run(scene.plan(1))
    own = stop(scene).own
    assert (own.pulled.writer, own.has_let_go) == (None, None)
    assert own.pulled.fence_after == own.pulled.fence_before + 1


@pytest.mark.parametrize("kind", KINDS)
def test_live_writer_is_named_and_lets_go(
    stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    scene = stage(kind, hand_over_delay_s=0.3)
    plan_id, stops = scene.plan(6), []
    pulling = threading.Thread(target=lambda: stops.append(stop(scene)))
    done = once_paused(scene, monkeypatch, lambda view: pulling.start())
    run = scene.run(plan_id, in_flight_steps=1)
    pulling.join(scaled(30.0))
    assert (done, run.state) == ([True], RunState.STOPPED)
    (stopped,) = stops
    writer = stopped.own.pulled.writer
    assert (writer.user, writer.host, writer.process) == (getpass.getuser(), socket.gethostname(), str(os.getpid()))
    assert (writer.plan_id, writer.epoch) == (plan_id, stopped.own.pulled.fence_before)
    assert stopped.own.pulled.fence_after == stopped.own.pulled.fence_before + 1
    assert (stopped.own.has_let_go, stopped.left_off, stopped.not_stopped) == (True, (), ())
    assert scene.switches() == SWITCHES_OF_FLEET


def test_writer_that_hangs_has_not_let_go_and_writes_nothing_more(stage: Callable[..., Scene]) -> None:
    scene = stage(hand_over_delay_s=0.3)
    plan_id = scene.plan(6)
    child = os.fork()
    if child == 0:
        waits = ZooKeeperClusterView.next_changes

        def hang_once(view: ZooKeeperClusterView, timeout_s: float) -> frozenset[str]:
            ZooKeeperClusterView.next_changes = waits  # type: ignore[method-assign]
            os.kill(os.getpid(), signal.SIGSTOP)
            return waits(view, timeout_s)

        ZooKeeperClusterView.next_changes = hang_once  # type: ignore[method-assign]
        try:
            settings = replace(SETTINGS, in_flight_steps=1, session_timeout_s=scaled(15.0))
            apply_plan(scene.lake, plan_id, scene.connection, settings)
        finally:
            os._exit(0)
    os.waitpid(child, os.WUNTRACED)
    stopped = stop(scene, wait_s=0.3).own
    assert stopped.has_let_go is False
    assert stopped.pulled.writer is not None
    assert (stopped.pulled.writer.process, len(stopped.in_flight), stopped.calls_in_flight) == (str(child), 1, ())
    begun = len(scene.journal(plan_id))
    os.kill(child, signal.SIGCONT)
    os.waitpid(child, 0)
    assert len(scene.journal(plan_id)) == begun, "no step began after the stop"
    assert scene.switches() == SWITCHES_OF_FLEET, "the switch forbids steps, not teardown"


def below(scene: Scene, root: str) -> Scene:
    return replace(scene, connection=replace(scene.connection, evenkeel_root=f"{scene.connection.pulsar_root}/{root}"))


def test_second_root_is_refused_with_both_names(stage: Callable[..., Scene]) -> None:
    scene = stage()
    other = below(scene, "keel")
    assert scene.run(scene.plan(1)).state is RunState.DONE
    plan_id = scene.plan(2)
    for dry_run in (True, False):
        with pytest.raises(RefusedError) as caught:
            other.apply(plan_id, dry_run=dry_run)
        assert f"two Evenkeel roots, {other.connection.evenkeel_root} and {scene.connection.evenkeel_root}" in str(
            caught.value
        )
    assert other.is_untouched
    assert scene.run(plan_id).state is RunState.DONE, "the first root goes on"


def test_root_of_another_pulsar_cluster_of_that_name_is_no_second_root(stage: Callable[..., Scene]) -> None:
    scene = stage()
    home = f"{below(scene, 'keel').connection.home}"
    scene.client.create(f"{home}/fence", b"", makepath=True)
    scene.client.create(f"{home}/pulsar-root", b"/elsewhere")
    assert scene.run(scene.plan(1)).state is RunState.DONE
    assert len(stop(scene).stopped) == 1
    assert scene.client.exists(f"{home}/stop") is None


def test_root_that_belongs_to_another_pulsar_cluster_is_refused(stage: Callable[..., Scene]) -> None:
    scene = stage()
    scene.client.create(f"{scene.connection.home}/pulsar-root", b"/elsewhere", makepath=True)
    with pytest.raises(RefusedError, match="belongs to the cluster below Pulsar's root /elsewhere, not to"):
        scene.run(scene.plan(1))


def test_writer_below_another_root_is_stopped_too(stage: Callable[..., Scene], monkeypatch: pytest.MonkeyPatch) -> None:
    scene = stage(hand_over_delay_s=0.3)
    other = below(scene, "keel")
    plan_id, stops = scene.plan(6), []
    pulling = threading.Thread(target=lambda: stops.append(stop(scene)))
    done = once_paused(scene, monkeypatch, lambda view: pulling.start())
    run = other.run(plan_id, in_flight_steps=1)
    pulling.join(scaled(30.0))
    assert (done, run.state) == ([True], RunState.STOPPED)
    (stopped,) = stops
    own, reached = stopped.stopped
    assert (own.root, own.pulled.writer) == (scene.connection.evenkeel_root, None)
    assert (reached.root, reached.has_let_go) == (other.connection.evenkeel_root, True)
    assert reached.pulled.writer.plan_id == plan_id
    assert resume_writing(scene.connection).still_stopped == ()
    assert scene.client.exists(f"{other.connection.home}/stop") is None, "one resume undoes one stop"


def test_root_that_cannot_be_stopped_is_named(stage: Callable[..., Scene]) -> None:
    scene = stage()
    other = below(scene, "keel").connection
    scene.client.create(f"{other.home}/fence", b"", makepath=True)
    scene.client.set_acls(other.home, READ_AND_REMOVE)
    stopped = stop(scene)
    ((root, error),) = stopped.not_stopped
    assert root == other.evenkeel_root
    assert "ZooKeeper refused to write the kill switch" in error
    assert scene.client.exists(f"{scene.connection.home}/stop") is not None


def test_resume_leaves_another_roots_own_stop_and_tells(stage: Callable[..., Scene]) -> None:
    scene = stage()
    other = below(scene, "keel")
    scene.client.create(f"{other.connection.home}/fence", b"", makepath=True)
    scene.client.create(f"{other.connection.home}/stop", b"hands off")
    stop(scene)
    ((root, directive),) = resume_writing(scene.connection).still_stopped
    assert (root, directive.reason) == (other.connection.evenkeel_root, "hands off")
    assert scene.client.exists(f"{other.connection.home}/stop") is not None


def test_snapshot_beside_two_roots_is_taken(stage: Callable[..., Scene]) -> None:
    scene = stage()
    scene.client.create(f"{below(scene, 'keel').connection.home}/fence", b"", makepath=True)
    take_snapshot(scene.lake, scene.connection, SETTINGS)
    assert scene.is_untouched
