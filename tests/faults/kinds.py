"""The faults: what is done to a run, at which moments it may happen, and what the run may then leave undone."""

from __future__ import annotations

import json
import random
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kazoo.client import KazooClient

from faults.frames import FrameKind
from faults.history import is_part
from faults.proxy import ByteMoment, Connection, Moment, Phase, Proxy
from faults.scene import STEPS, PlannedRun, Scene
from faults.servers import Servers
from faults.writer import WriterProcess

SESSION_S = 1.0
PAST_THE_SESSION_S = 1.8
SHORT_STALL_S = 0.4
LONG_STALL_S = 2.2
REFUSAL_S = 1.5
OUTAGE_S = 1.5
OVERTAKING_TIMEOUT_S = 30.0
TWIN_TIMEOUT_S = 10.0
MOST_BYTES_TO_SERVER, MOST_BYTES_FROM_SERVER = 18_000, 30_000
"""About what a run of this size sends and receives."""
CLOCK_SKEWS_S = (-3_600.0, -60.0, -7.0, -2.0, 2.0, 7.0, 60.0, 1_800.0)
PHASES = tuple(Phase)
MOST_OF = {FrameKind.BEGIN: STEPS, FrameKind.CONCLUDE: 4, FrameKind.SWITCHES: 2}
"""How many requests of a kind a run makes at least, or nearly so: steps that settle together are concluded together."""


class Stage(Protocol):
    """A run under way, as a fault sees it."""

    scene: Scene
    plan: PlannedRun
    proxies: list[Proxy]
    draw: random.Random
    disturbed: set[str]
    must_finish: bool
    before_resuming: list[Callable[[], None]]

    @property
    def servers(self) -> Servers: ...

    @property
    def writer(self) -> WriterProcess: ...

    def start_rival(self) -> WriterProcess: ...


Act = Callable[[Stage, Connection, str], None]


@dataclass(frozen=True, slots=True)
class Kind:
    """One fault."""

    name: str
    act: Act
    at: tuple[FrameKind, ...] = (FrameKind.BEGIN, FrameKind.BEGIN, FrameKind.BEGIN, FrameKind.CONCLUDE)
    phases: tuple[Phase, ...] = PHASES
    needs_ensemble: bool = False
    may_be_modular: bool = False
    is_at_byte: bool = False
    clears_up: bool = False
    """Whether a writer that this happens to must itself put Pulsar's switches back before it ends."""

    def draw_moment(self, draw: random.Random) -> Moment | ByteMoment | None:
        if self.is_at_byte:
            is_to_server = draw.random() < 0.5
            most = MOST_BYTES_TO_SERVER if is_to_server else MOST_BYTES_FROM_SERVER
            return ByteMoment(draw.randrange(most), is_to_server)
        if not self.at:
            return None
        kind = draw.choice(self.at)
        number = draw.randint(1, MOST_OF.get(kind, 1))
        return Moment(kind, number, draw.choice(self.phases))


def kill(stage: Stage, connection: Connection, bundle: str) -> None:
    stage.writer.send(signal.SIGKILL)
    stage.writer.wait(OVERTAKING_TIMEOUT_S)


def terminate(stage: Stage, connection: Connection, bundle: str) -> None:
    stage.writer.send(signal.SIGTERM)


def pause(stage: Stage, connection: Connection, bundle: str) -> None:
    """SIGSTOP past the session; nobody else comes."""
    stage.writer.send(signal.SIGSTOP)
    time.sleep(PAST_THE_SESSION_S)
    stage.writer.send(signal.SIGCONT)


def overtake(stage: Stage, connection: Connection, bundle: str) -> None:
    """SIGSTOP past the session; another run of the plan comes and goes; then SIGCONT."""
    stage.writer.send(signal.SIGSTOP)
    time.sleep(PAST_THE_SESSION_S)
    stage.start_rival().wait(OVERTAKING_TIMEOUT_S)
    stage.writer.send(signal.SIGCONT)


def deliver_late(stage: Stage, connection: Connection, bundle: str) -> None:
    """As overtaken, but what the stopped writer had sent reaches the server afterwards, in a session that lives."""
    connection.is_kept = True
    overtake(stage, connection, bundle)
    connection.rehome()


def cut(stage: Stage, connection: Connection, bundle: str) -> None:
    connection.cut()


def stall_briefly(stage: Stage, connection: Connection, bundle: str) -> None:
    _stall(stage, SHORT_STALL_S)


def stall_past_session(stage: Stage, connection: Connection, bundle: str) -> None:
    _stall(stage, LONG_STALL_S)


def _stall(stage: Stage, seconds: float) -> None:
    for proxy in stage.proxies:
        proxy.flowing.clear()
        threading.Timer(seconds, proxy.flowing.set).start()


def refuse(stage: Stage, connection: Connection, bundle: str) -> None:
    """Cut, and let nobody connect for a while."""

    def accept_again() -> None:
        for proxy in stage.proxies:
            proxy.is_refusing = False

    for proxy in stage.proxies:
        proxy.is_refusing = True
        proxy.cut_all()
    threading.Timer(REFUSAL_S, accept_again).start()


def expire(stage: Stage, connection: Connection, bundle: str) -> None:
    """End the writer's session at the server: a second connection takes it over and closes it."""
    twin = KazooClient(stage.servers.hosts, timeout=TWIN_TIMEOUT_S, client_id=connection.session)
    twin.start(timeout=TWIN_TIMEOUT_S)
    twin.stop()
    twin.close()


def start_second_writer(stage: Stage, connection: Connection, bundle: str) -> None:
    stage.start_rival()


def race(stage: Stage, connection: Connection, bundle: str) -> None:
    """A foreign hand moves the bundle between the writer's reading and its transaction."""
    if bundle and stage.scene.move_by_foreign_hand(bundle) is not None:
        stage.disturbed |= {step.bundle for step in stage.plan.steps if is_part(step.bundle, bundle)}


def edit_policy(stage: Stage, connection: Connection, bundle: str) -> None:
    path = stage.scene.fleet.paths.isolation
    if stage.scene.operator.exists(path) is None:
        stage.scene.operator.create(path, b"{}")
    else:
        stage.scene.operator.set(path, b"{}")
    stage.must_finish = False


def edit_switches(stage: Stage, connection: Connection, bundle: str) -> None:
    """Another hand sets a switch that the writer has set too: its word is the last."""
    path = stage.scene.fleet.paths.configuration
    values = stage.scene.switches() | {"loadBalancerAutoBundleSplitEnabled": "true"}
    stage.scene.operator.set(path, json.dumps(values).encode())
    stage.must_finish = False


def kill_broker(stage: Stage, connection: Connection, bundle: str) -> None:
    """A plan counts on all brokers that it has seen: while one of them is away, no run of it begins."""
    stage.scene.fleet.kill_broker(_disturb_broker(stage, bundle))
    stage.must_finish = False


def restart_broker(stage: Stage, connection: Connection, bundle: str) -> None:
    stage.scene.fleet.restart_broker(_disturb_broker(stage, bundle))


def expire_broker(stage: Stage, connection: Connection, bundle: str) -> None:
    """A broker's session ends in the hand-over: it closes its bundles and comes back as another incarnation."""
    stage.scene.fleet.expire_session(_disturb_broker(stage, bundle))


def _disturb_broker(stage: Stage, bundle: str) -> str:
    """The source or the destination of the step at hand; what happens to its bundles is Pulsar's to decide."""
    step = next((step for step in stage.plan.steps if step.bundle == bundle), stage.plan.steps[0])
    broker = stage.draw.choice([step.source, step.destination or step.source])
    stage.disturbed |= {step.bundle for step in stage.plan.steps if broker in (step.source, step.destination)}
    return broker


def pull_kill_switch(stage: Stage, connection: Connection, bundle: str) -> None:
    stage.scene.pull_kill_switch()
    stage.before_resuming.append(stage.scene.release_kill_switch)


def restart_server(stage: Stage, connection: Connection, bundle: str) -> None:
    stage.servers.restart_server()


def lose_quorum(stage: Stage, connection: Connection, bundle: str) -> None:
    stage.servers.lose_quorum(OUTAGE_S)


def nothing(stage: Stage, connection: Connection, bundle: str) -> None:
    """No fault, or one that is not tied to a moment."""


EVERYWHERE = (*Kind("", nothing).at, FrameKind.ACQUIRE, FrameKind.RELEASE, FrameKind.SWITCHES)
STEP = (FrameKind.BEGIN,)
NO_FAULT, CLOCK_SKEW = "no fault", "clock skew"
WINDOW_END, CALLERS_END = "window end", "end by the caller"
KINDS = (
    Kind(NO_FAULT, nothing, at=(), may_be_modular=True),
    Kind("SIGKILL", kill, at=EVERYWHERE, may_be_modular=True),
    Kind("SIGTERM", terminate, at=EVERYWHERE, may_be_modular=True, clears_up=True),
    Kind("SIGSTOP past session", pause, may_be_modular=True, clears_up=True),
    Kind("SIGSTOP, overtaken", overtake, may_be_modular=True),
    Kind("late write of overtaken", deliver_late, at=STEP, phases=(Phase.BEFORE,)),
    Kind("cut at a request", cut, at=EVERYWHERE, may_be_modular=True, clears_up=True),
    Kind("cut at a byte", cut, is_at_byte=True, may_be_modular=True, clears_up=True),
    Kind("short stall", stall_briefly, at=EVERYWHERE, clears_up=True),
    Kind("stall past session", stall_past_session, at=EVERYWHERE, clears_up=True),
    Kind("refused connections", refuse, at=EVERYWHERE, clears_up=True),
    Kind("session expiry", expire, at=EVERYWHERE, may_be_modular=True, clears_up=True),
    Kind("second writer", start_second_writer, at=EVERYWHERE),
    Kind("foreign writer", race, at=STEP, phases=(Phase.BEFORE, Phase.INSIDE)),
    Kind("policy edit", edit_policy),
    Kind("switches edited", edit_switches, at=STEP),
    Kind("broker death", kill_broker, at=STEP),
    Kind("broker restart", restart_broker, at=STEP),
    Kind("kill switch", pull_kill_switch, at=EVERYWHERE, may_be_modular=True, clears_up=True),
    Kind(WINDOW_END, nothing, at=()),
    Kind(CLOCK_SKEW, nothing, at=()),
    Kind("server restart", restart_server),
    Kind("leader killed", restart_server, needs_ensemble=True),
    Kind("quorum lost", lose_quorum, needs_ensemble=True),
    Kind("broker session expiry", expire_broker, at=STEP, phases=(Phase.AFTER, Phase.DONE), may_be_modular=True),
    Kind(CALLERS_END, nothing, at=(), may_be_modular=True),
)


def kind_of(seed: int) -> Kind:
    """Every kind in turn, so that any stretch of seeds covers them evenly."""
    return KINDS[seed % len(KINDS)]
