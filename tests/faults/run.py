"""One run: a seed draws a fault and its moment; the writer meets it, is resumed, and its history is judged."""

from __future__ import annotations

import random
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

from evenkeel.fleet.settings import LoadManagerKind
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from faults.checker import find_violations
from faults.history import History, RunFacts
from faults.kinds import CALLERS_END, CLOCK_SKEW, CLOCK_SKEWS_S, NO_FAULT, WINDOW_END, Kind, kind_of
from faults.proxy import ByteMoment, Connection, Moment, Proxy, Script, open_proxies
from faults.scene import PlannedRun, Scene, writer_settings
from faults.servers import Ensemble, Servers, SingleServer
from faults.writer import CRASHED, DONE, Order, WriterProcess, open_fork_server

HANG_S = 60.0
FAULT_TIMEOUT_S = 120.0
SETTLE_TIMEOUT_S = 20.0
MOST_RESUMES = 8
POLL_S = 0.05
OPERATOR_TIMEOUT_S = 30.0
MODULAR_SHARE = 0.25
PACE_S = 0.6
SHORT_WINDOW_S = (2.5, 4.5)
LONG_WINDOW_S = 3_600.0
UNHURRIED_SESSION_S = 10.0
SLACK_FOR_SKEW_S = 5.0
FIRST_EPOCH = 1


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a run; the whole of what is printed about it."""

    seed: int
    kind: str
    manager: str
    moment: str
    has_fired: bool
    first: str
    resumes: int
    seconds: float
    step_ms: float | None
    recovery_ms: float | None
    violations: list[str]

    @property
    def recovery_steps(self) -> float | None:
        """Recovery in step times."""
        return self.recovery_ms / self.step_ms if self.recovery_ms is not None and self.step_ms else None


class Workshop:
    """What many runs share: ZooKeeper, an operator's session, and the server that writers are forked from."""

    def __init__(self, servers: Servers, folder: Path) -> None:
        self.servers = servers
        self.folder = folder
        self.context = open_fork_server()
        self.operator = KazooClient(servers.hosts, timeout=OPERATOR_TIMEOUT_S)
        self.operator.start(timeout=OPERATOR_TIMEOUT_S)
        self._runs = 0

    @classmethod
    def open(cls, stack: ExitStack, is_ensemble: bool) -> Workshop:
        """A workshop in a temporary folder, closed with the stack."""
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenkeel-faults-")))
        servers: Servers = Ensemble(folder) if is_ensemble else SingleServer(folder / "zookeeper")
        stack.callback(servers.stop)
        return stack.enter_context(cls(servers, folder))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.operator.stop()
        self.operator.close()

    def mark(self) -> int:
        """A place in the history."""
        created = self.operator.retry(self.operator.create, "/mark-", sequence=True, include_data=True)
        return int(created[1].czxid)

    def next_name(self, seed: int) -> str:
        self._runs += 1
        return f"r{self._runs}-{seed}"


@dataclass(slots=True)
class RunningStage:
    """A run under way."""

    workshop: Workshop
    scene: Scene
    plan: PlannedRun
    script: Script
    proxies: list[Proxy]
    draw: random.Random
    settings: Settings
    disturbed: set[str] = field(default_factory=set)
    must_finish: bool = True
    before_resuming: list[Callable[[], None]] = field(default_factory=list)
    prepared_zxid: int = 0
    fired_at_ms: float | None = None
    is_over: threading.Event = field(default_factory=threading.Event)
    findings: list[str] = field(default_factory=list)
    first_writer: WriterProcess | None = None
    last: str = "done"
    until: datetime | None = None
    """When the first writer's caller wants it to end; those who resume have a window of their own."""
    rivals: list[WriterProcess] = field(default_factory=list)
    _answers: int = 0

    @property
    def servers(self) -> Servers:
        return self.workshop.servers

    @property
    def writer(self) -> WriterProcess:
        assert self.first_writer is not None
        return self.first_writer

    def start_writer(
        self, connection: ClusterConnection, clock_skew_s: float = 0.0, until: datetime | None = None
    ) -> WriterProcess:
        self._answers += 1
        answer = self.workshop.folder / f"{self.scene.root[1:]}-{self._answers}.json"
        order = Order(self.scene.lake.uri, self.plan.plan_id, connection, self.settings, answer, clock_skew_s, until)
        return WriterProcess(self.workshop.context, order)

    def start_rival(self) -> WriterProcess:
        rival = self.start_writer(self.scene.connection)
        self.rivals.append(rival)
        return rival

    def finish(self, writer: WriterProcess) -> str:
        """Wait for a writer's end and say how it ended; one that hangs or crashes is a finding."""
        code = writer.wait(HANG_S)
        if code is None:
            self.findings.append(f"hang: a writer still ran after {HANG_S:g} s")
            writer.send(signal.SIGKILL)
            writer.wait(HANG_S)
            return "hung"
        if code == CRASHED:
            self.findings.append(f"crash: {writer.answer.get('detail', '')}")
        if code == DONE:
            return "done"
        told = writer.answer
        return f"{told['state']}: {told['detail']}" if told else f"ended by {code}"

    def resume(self) -> int:
        """Apply the plan again until it is done, or refused twice for the same reason; answers how often."""
        for prepare in self.before_resuming:
            prepare()
        told: list[str] = []
        while len(told) < MOST_RESUMES and not self._is_final(told):
            told.append(self.finish(self.start_writer(self.scene.connection)))
        self.last = told[-1]
        return len(told)

    def _is_final(self, told: Sequence[str]) -> bool:
        """Done, or the same refusal again and again: once more where another hand stands in the way, else twice."""
        same = 2 if not self.must_finish else 3
        return told[-1:] == ["done"] or (len(told) >= same and len(set(told[-same:])) == 1)


def run_seed(seed: int, workshop: Workshop) -> Result:
    """Make the run that a seed stands for."""
    started_s = time.monotonic()
    kind, draw = kind_of(seed), random.Random(seed)
    manager = LoadManagerKind.EXTENSIBLE
    if kind.may_be_modular and draw.random() < MODULAR_SHARE:
        manager = LoadManagerKind.MODULAR
    moment = kind.draw_moment(draw)
    name = workshop.next_name(seed)
    start_zxid = workshop.mark()
    with ExitStack() as stack:
        servers, operator = workshop.servers, workshop.operator
        scene = stack.enter_context(Scene(name, servers.hosts, operator, workshop.folder, manager))
        is_short = kind.name in (WINDOW_END, CALLERS_END)
        window_s = draw.uniform(*SHORT_WINDOW_S) if is_short else LONG_WINDOW_S
        ends_at = datetime.now(UTC) + timedelta(seconds=window_s)
        plan = scene.make_plan(ends_at + timedelta(seconds=LONG_WINDOW_S if kind.name == CALLERS_END else 0.0))
        switches = scene.switches()
        script = Script(moment, pace_s=PACE_S if is_short else 0.0)
        proxies = open_proxies(servers.addresses, script)
        for proxy in proxies:
            stack.callback(proxy.close)
        settings = writer_settings(session_expired_policy=draw.choice(("shutdown", "reconnect")))
        if is_short:
            # Held requests hold the session's heartbeats, too; and steps that are sent together would add up.
            settings = replace(settings, session_timeout_s=UNHURRIED_SESSION_S, in_flight_steps=1)
        stage = RunningStage(workshop, scene, plan, script, proxies, draw, settings)
        stage.until = ends_at if kind.name == CALLERS_END else None
        stage.is_over.set()
        script.action = _fire(stage, kind)
        stage.prepared_zxid = workshop.mark()
        first, resumes = _play(stage, kind)
        _wait_until_settled(stage)
        end_zxid = workshop.mark()
        transactions = [t for t in servers.read_history(start_zxid) if t.zxid <= end_zxid]
        facts = RunFacts(
            root=scene.root,
            home=scene.connection.home,
            cluster=scene.connection.cluster,
            plan_id=plan.plan_id,
            steps=plan.steps,
            in_flight_steps=stage.settings.in_flight_steps,
            step_deadline_ms=int(stage.settings.step_deadline_s * 1000),
            ends_at_ms=int(plan.expires_at.timestamp() * 1000),
            approved_at_ms=plan.approved_at_ms,
            until_ms={FIRST_EPOCH: int(stage.until.timestamp() * 1000)} if stage.until else {},
            policy_paths=plan.policy_paths,
            switches_before=switches,
            foreign_sessions=frozenset({int(operator.client_id[0])}),
            disturbed=frozenset(stage.disturbed),
            must_finish=stage.must_finish,
            is_done=stage.last == "done",
            is_admin_call=manager is LoadManagerKind.MODULAR,
            max_steps=len(plan.steps),
            start_zxid=stage.prepared_zxid,
        )
        history = History(transactions, facts)
        violations = [str(violation) for violation in find_violations(history)] + stage.findings
        if violations and stage.last != "done":
            violations.append(f"told: after {resumes} resumptions {stage.last}")
    step_ms, recovery_ms = _measure(history, stage.fired_at_ms)
    return Result(
        seed=seed,
        kind=kind.name,
        manager=manager.value,
        moment=_tell_moment(moment),
        has_fired=script.has_fired,
        first=first,
        resumes=resumes,
        seconds=round(time.monotonic() - started_s, 2),
        step_ms=step_ms,
        recovery_ms=recovery_ms,
        violations=violations,
    )


def _fire(stage: RunningStage, kind: Kind) -> Callable[[Connection, str], None]:
    def act(connection: Connection, bundle: str) -> None:
        stage.fired_at_ms = time.time() * 1000
        stage.is_over.clear()
        try:
            kind.act(stage, connection, bundle)
        except Exception as error:
            stage.findings.append(f"harness: the fault itself failed with {error!r}")
        finally:
            stage.is_over.set()

    return act


def _play(stage: RunningStage, kind: Kind) -> tuple[str, int]:
    """The first writer through the fault, then as many as it takes; answers how the first ended, and how many."""
    skew_s = 0.0
    if kind.name == CLOCK_SKEW:
        skew_s = stage.draw.choice(CLOCK_SKEWS_S)
        stage.script.has_fired = True
    if kind.name in (WINDOW_END, CALLERS_END, NO_FAULT):
        stage.script.has_fired = True
        # The plan itself has expired with its window; nobody may go on with it.
        stage.must_finish = kind.name != WINDOW_END
    hosts = ",".join(proxy.address for proxy in stage.proxies)
    connection = _through(stage.scene.connection, hosts)
    switches = stage.scene.switches()
    stage.first_writer = stage.start_writer(connection, skew_s, stage.until)
    first = stage.finish(stage.first_writer)
    if kind.clears_up and stage.scene.switches() != switches:
        stage.findings.append(f"switches: the writer that ended so has left them off: {first}")
    # Servers that a fault took away must be back before anybody can resume.
    stage.is_over.wait(FAULT_TIMEOUT_S)
    for rival in stage.rivals:
        stage.finish(rival)
    if abs(skew_s) > SLACK_FOR_SKEW_S and first == "done":
        stage.findings.append(f"clock: a writer whose clock was {skew_s:g} s off has written")
    is_over = first == "done" and not stage.before_resuming
    return first, 0 if is_over else stage.resume()


def _through(connection: ClusterConnection, hosts: str) -> ClusterConnection:
    return ClusterConnection(
        connection.cluster,
        hosts,
        pulsar_root=connection.pulsar_root,
        evenkeel_root=connection.evenkeel_root,
        timeout_s=connection.timeout_s,
    )


def _wait_until_settled(stage: RunningStage) -> None:
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while time.monotonic() < deadline_s:
        with suppress(KazooException):
            if stage.scene.are_settled(stage.plan.steps):
                return
        time.sleep(POLL_S)
    stage.findings.append(f"unsettled: a bundle was still in flight {SETTLE_TIMEOUT_S:g} s after the run")


def _measure(history: History, fired_at_ms: float | None) -> tuple[float | None, float | None]:
    """The time that a step takes, and from the fault until a step was journalled as settled again."""
    times = [
        landing.transaction.time_ms - begin.transaction.time_ms
        for begin in history.begins
        if (landing := history.landing_of(begin)) is not None
    ]
    step_ms = statistics.median(times) if times else None
    settled = [e.transaction.time_ms for e in history.entries if e.state == "settled"]
    after = [at_ms for at_ms in settled if fired_at_ms is not None and at_ms >= fired_at_ms]
    return step_ms, (min(after) - fired_at_ms if after and fired_at_ms is not None else None)


def _tell_moment(moment: Moment | ByteMoment | None) -> str:
    return "" if moment is None else str(moment)


def to_json(result: Result) -> dict[str, Any]:
    return {name: getattr(result, name) for name in Result.__dataclass_fields__}
