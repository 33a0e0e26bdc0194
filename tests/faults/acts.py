"""What faults do: each is one function of the stage, the connection it strikes at, and the bundle at hand."""

from __future__ import annotations

import json
import random
import resource
import signal
import threading
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from kazoo.client import KazooClient

from faults.frames import RequestKind
from faults.history import is_part
from faults.moments import Moment, Phase, Script, Struck
from faults.proxy import Proxy, open_proxies
from faults.scene import PlannedRun, Scene
from faults.servers import Servers
from faults.writer import WriterProcess
from support.waiting import scaled

PAST_THE_SESSION_S = 1.8
SHORT_STALL_S = 0.4
LONG_STALL_S = 2.2
REFUSAL_S = 1.5
OUTAGE_S = 1.5
OVERTAKING_TIMEOUT_S = 30.0
TWIN_TIMEOUT_S = 10.0
GRACES_S = (0.02, 0.1, 0.3, 1.0)
"""How soon SIGKILL follows SIGTERM where nobody waits for the end of the teardown."""
AIRFLOW_GRACE_S = 5.0
HOLD_S = 0.3
"""How long the next writer is held with the fence in its hands; its session lives a second."""
GATE_TIMEOUT_S = 20.0
SHEDDING = "loadBalancerSheddingEnabled"


class Stage(Protocol):
    """A run under way, as a fault sees it."""

    scene: Scene
    plan: PlannedRun
    script: Script
    proxies: list[Proxy]
    configuration_proxies: list[Proxy]
    draw: random.Random
    disturbed: set[str]
    must_finish: bool
    before_resuming: list[Callable[[], None]]
    findings: list[str]
    set_by_operator: dict[str, str]
    policy_edits_ms: list[int]

    @property
    def servers(self) -> Servers: ...

    @property
    def writer(self) -> WriterProcess: ...

    @property
    def configuration_operator(self) -> KazooClient: ...

    def start_rival(self, proxies: Sequence[Proxy] = (), plan_id: str = "") -> WriterProcess: ...


Act = Callable[[Stage, Struck, str], None]


def kill(stage: Stage, connection: Struck, bundle: str) -> None:
    stage.writer.send(signal.SIGKILL)
    stage.writer.wait(OVERTAKING_TIMEOUT_S)


def terminate(stage: Stage, connection: Struck, bundle: str) -> None:
    stage.writer.send(signal.SIGTERM)


def pause(stage: Stage, connection: Struck, bundle: str) -> None:
    """SIGSTOP past the session; nobody else comes."""
    stage.writer.send(signal.SIGSTOP)
    time.sleep(PAST_THE_SESSION_S)
    stage.writer.send(signal.SIGCONT)


def overtake(stage: Stage, connection: Struck, bundle: str) -> None:
    """SIGSTOP past the session; another run of the plan comes and goes; then SIGCONT."""
    stage.writer.send(signal.SIGSTOP)
    time.sleep(PAST_THE_SESSION_S)
    stage.start_rival().wait(OVERTAKING_TIMEOUT_S)
    stage.writer.send(signal.SIGCONT)


def deliver_late(stage: Stage, connection: Struck, bundle: str) -> None:
    """As overtaken, but what the stopped writer had sent reaches the server afterwards, in a session that lives."""
    connection.is_kept = True
    overtake(stage, connection, bundle)
    connection.rehome()


def deliver_late_to_the_fence(stage: Stage, connection: Struck, bundle: str) -> None:
    """A late write whose only obstacle is the fence.

    The next writer has just taken over and done nothing yet: the node `writer` is there, the bundle and the journal are
    as the stopped writer saw them.
    """
    connection.is_kept = True
    stage.writer.send(signal.SIGSTOP)
    time.sleep(PAST_THE_SESSION_S)
    has_taken, may_go_on = threading.Event(), threading.Event()

    def hold(rival: Struck, _: str) -> None:
        has_taken.set()
        may_go_on.wait(HOLD_S)

    gate = open_proxies(stage.servers.addresses, Script(Moment(RequestKind.OPEN, 1, Phase.BEFORE), hold))
    stage.before_resuming += [proxy.close for proxy in gate]
    # Who applies a plan that is done takes no fence; at the release, the next writer has a plan of its own.
    is_done = stage.script.seen[RequestKind.RELEASE] > 0
    stage.start_rival(gate, stage.scene.make_another_plan(stage.plan) if is_done else "")
    if not has_taken.wait(scaled(GATE_TIMEOUT_S)):
        stage.findings.append("harness: the next writer has not taken the fence")
    connection.rehome()
    stage.writer.send(signal.SIGCONT)


def cut(stage: Stage, connection: Struck, bundle: str) -> None:
    connection.cut()


def stall_briefly(stage: Stage, connection: Struck, bundle: str) -> None:
    _stall(stage, connection, SHORT_STALL_S)


def stall_past_session(stage: Stage, connection: Struck, bundle: str) -> None:
    _stall(stage, connection, LONG_STALL_S)


def _proxies(stage: Stage, connection: Struck) -> list[Proxy]:
    """The ways to the store that a fault strikes at."""
    return stage.configuration_proxies if connection.is_configuration else stage.proxies


def _stall(stage: Stage, connection: Struck, seconds: float) -> None:
    for proxy in _proxies(stage, connection):
        proxy.flowing.clear()
        threading.Timer(seconds, proxy.flowing.set).start()


def refuse(stage: Stage, connection: Struck, bundle: str) -> None:
    """Cut, and let nobody connect for a while."""
    proxies = _proxies(stage, connection)

    def accept_again() -> None:
        for proxy in proxies:
            proxy.is_refusing = False

    for proxy in proxies:
        proxy.is_refusing = True
        proxy.cut_all()
    threading.Timer(REFUSAL_S, accept_again).start()


def expire(stage: Stage, connection: Struck, bundle: str) -> None:
    """End the writer's session at the server: a second connection takes it over and closes it."""
    store = stage.configuration_operator if connection.is_configuration else stage.scene.operator
    hosts = ",".join(f"{host}:{port}" for host, port in store.hosts)
    twin = KazooClient(hosts, timeout=TWIN_TIMEOUT_S, client_id=connection.session)
    twin.start(timeout=TWIN_TIMEOUT_S)
    twin.stop()
    twin.close()


def terminate_then_kill(stage: Stage, connection: Struck, bundle: str) -> None:
    """SIGTERM, and SIGKILL before the teardown can be over: somebody else has to finish it."""
    terminate(stage, connection, bundle)
    stage.writer.wait(stage.draw.choice(GRACES_S))
    kill(stage, connection, bundle)


def terminate_as_airflow_does(stage: Stage, connection: Struck, bundle: str) -> None:
    """SIGTERM, and SIGKILL five seconds later: a writer whose ZooKeeper answers has torn down by then."""
    terminate(stage, connection, bundle)
    if stage.writer.wait(scaled(AIRFLOW_GRACE_S)) is None:
        stage.findings.append(f"grace: the writer still ran {AIRFLOW_GRACE_S:g} s after SIGTERM")
    kill(stage, connection, bundle)


def start_second_writer(stage: Stage, connection: Struck, bundle: str) -> None:
    stage.start_rival()


def race(stage: Stage, connection: Struck, bundle: str) -> None:
    """A foreign hand moves the bundle between the writer's reading and its transaction."""
    if bundle and stage.scene.move_by_foreign_hand(bundle) is not None:
        stage.disturbed |= {step.bundle for step in stage.plan.steps if is_part(step.bundle, bundle)}


def edit_policy(stage: Stage, connection: Struck, bundle: str) -> None:
    """Another hand writes the isolation policies, in whichever store they are."""
    path = stage.scene.fleet.paths.isolation(stage.scene.fleet.settings.cluster)
    store = stage.configuration_operator
    if store.exists(path) is None:
        store.create(path, b"{}")
    else:
        store.set(path, b"{}")
    stage.policy_edits_ms.append(round(time.time() * 1000))
    stage.must_finish = False


def edit_switches(stage: Stage, connection: Struck, bundle: str) -> None:
    """Another hand sets a switch that the writer has set too: its word is the last."""
    path = stage.scene.fleet.paths.configuration
    values = stage.scene.switches() | {"loadBalancerAutoBundleSplitEnabled": "true"}
    stage.scene.operator.set(path, json.dumps(values).encode())
    stage.must_finish = False


def repeat_switch(stage: Stage, connection: Struck, bundle: str) -> None:
    """Another hand switches shedding off, as the writer has done or is about to do: it wants it off for good."""
    path = stage.scene.fleet.paths.configuration
    stage.scene.operator.set(path, json.dumps(stage.scene.switches() | {SHEDDING: "false"}).encode())
    stage.set_by_operator[SHEDDING] = "false"
    stage.must_finish = False


def mark_draining(stage: Stage, connection: Struck, bundle: str) -> None:
    """An operator marks a destination of steps to come: it receives nothing more."""
    transfers = [step for step in stage.plan.steps if step.destination is not None]
    step = stage.draw.choice(transfers)
    stage.scene.mark_draining(str(step.destination))
    stage.disturbed |= {other.bundle for other in transfers if other.destination == step.destination}
    stage.must_finish = False


def step_clock(stage: Stage, connection: Struck, bundle: str) -> None:
    """The clock of the writer's machine is set, by as much as the run has drawn."""
    stage.writer.send(signal.SIGUSR1)


def fill_lake(stage: Stage, connection: Struck, bundle: str) -> None:
    """No byte fits onto the writer's disk any more."""
    _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    stage.writer.limit_files(0, hard)


def lock_lake(stage: Stage, connection: Struck, bundle: str) -> None:
    """Nothing can be created where the lake keeps its runs; root may write everywhere, so a file takes their place."""
    runs = stage.scene.lake_folder / "runs"
    aside = runs.with_name("runs-aside")
    if runs.exists():
        runs.rename(aside)
    runs.write_bytes(b"")

    def unlock() -> None:
        runs.unlink()
        if aside.exists():
            aside.rename(runs)

    stage.before_resuming.append(unlock)


def kill_broker(stage: Stage, connection: Struck, bundle: str) -> None:
    """A plan counts on all brokers that it has seen: while one of them is away, no run of it begins."""
    stage.scene.fleet.kill_broker(_disturb_broker(stage, bundle))
    stage.must_finish = False


def restart_broker(stage: Stage, connection: Struck, bundle: str) -> None:
    stage.scene.fleet.restart_broker(_disturb_broker(stage, bundle))


def expire_broker(stage: Stage, connection: Struck, bundle: str) -> None:
    """A broker's session ends in the hand-over: it closes its bundles and comes back as another incarnation."""
    stage.scene.fleet.expire_session(_disturb_broker(stage, bundle))


def _disturb_broker(stage: Stage, bundle: str) -> str:
    """The source or the destination of the step at hand; what happens to its bundles is Pulsar's to decide."""
    step = next((step for step in stage.plan.steps if step.bundle == bundle), stage.plan.steps[0])
    broker = stage.draw.choice([step.source, step.destination or step.source])
    stage.disturbed |= {step.bundle for step in stage.plan.steps if broker in (step.source, step.destination)}
    return broker


def pull_kill_switch(stage: Stage, connection: Struck, bundle: str) -> None:
    stage.scene.pull_kill_switch()
    stage.before_resuming.append(stage.scene.release_kill_switch)


def restart_server(stage: Stage, connection: Struck, bundle: str) -> None:
    stage.servers.restart_server()


def lose_quorum(stage: Stage, connection: Struck, bundle: str) -> None:
    stage.servers.lose_quorum(OUTAGE_S)


def nothing(stage: Stage, connection: Struck, bundle: str) -> None:
    """No fault, or one that is not tied to a moment."""
