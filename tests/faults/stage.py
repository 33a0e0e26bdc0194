"""Where runs take place: the workshop that many share, and the stage of the one that is under way."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient

from evenkeel.model.connection import ClusterConnection
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import LoadManager
from faults.facts import RunFacts
from faults.moments import Script
from faults.proxy import Proxy
from faults.scene import PlannedRun, Scene
from faults.servers import Ensemble, Layout, Servers, SingleServer
from faults.writer import CRASHED, DONE, WriterProcess, WriterTask, open_fork_server

HANG_S = 60.0
MOST_RESUMES = 8
OPERATOR_TIMEOUT_S = 30.0
FIRST_EPOCH = 1


class Workshop:
    """What many runs share: ZooKeeper, an operator's session, and the server that writers are forked from."""

    def __init__(self, servers: Servers, folder: Path, configuration: Servers | None = None) -> None:
        self.servers = servers
        self.configuration = configuration
        """The configuration store, where it is not the cluster's own."""
        self.folder = folder
        self.context = open_fork_server()
        self.operator = _connect(servers)
        self.configuration_operator = self.operator if configuration is None else _connect(configuration)
        self._runs = 0

    @classmethod
    def open(cls, stack: ExitStack, layout: Layout = Layout.ONE, shared: Servers | None = None) -> Workshop:
        """A workshop in a temporary folder, closed with the stack; with servers of its own unless some are given."""
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="evenkeel-faults-")))
        servers = shared or (Ensemble(folder) if layout is Layout.ENSEMBLE else SingleServer(folder / "zookeeper"))
        stack.callback(servers.stop)
        configuration = SingleServer(folder / "configuration") if layout is Layout.TWO_STORES else None
        if configuration is not None:
            stack.callback(configuration.stop)
        return stack.enter_context(cls(servers, folder, configuration))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in {self.operator, self.configuration_operator}:
            client.stop()
            client.close()

    def mark(self) -> int:
        """A place in the history."""
        created = self.operator.retry(self.operator.create, "/mark-", sequence=True, include_data=True)
        return int(created[1].czxid)

    def next_name(self, seed: int) -> str:
        self._runs += 1
        # Several processes may use one server.
        return f"r{os.getpid()}-{self._runs}-{seed}"


def _connect(servers: Servers) -> KazooClient:
    client = KazooClient(servers.hosts, timeout=OPERATOR_TIMEOUT_S)
    client.start(timeout=OPERATOR_TIMEOUT_S)
    return client


def _set_event() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


@dataclass(slots=True)
class RunningStage:
    """A run under way."""

    workshop: Workshop
    scene: Scene
    plan: PlannedRun
    script: Script
    proxies: list[Proxy]
    configuration_proxies: list[Proxy]
    draw: random.Random
    settings: Settings
    switches_before: Mapping[str, str]
    until: datetime | None = None
    """When the first writer's caller wants it to end; those who resume have a window of their own."""
    clock_skew_s: float = 0.0
    clock_step_s: float = 0.0
    disturbed: set[str] = field(default_factory=set)
    set_by_operator: dict[str, str] = field(default_factory=dict)
    policy_edits_ms: list[int] = field(default_factory=list)
    must_finish: bool = True
    before_resuming: list[Callable[[], None]] = field(default_factory=list)
    prepared_zxid: int = 0
    fired_at_ms: float | None = None
    is_over: threading.Event = field(default_factory=_set_event)
    """Whether what the fault does is done; there may be none."""
    findings: list[str] = field(default_factory=list)
    first_writer: WriterProcess | None = None
    last: str = "done"
    rivals: list[WriterProcess] = field(default_factory=list)
    _answers: int = 0

    @property
    def servers(self) -> Servers:
        return self.workshop.servers

    @property
    def writer(self) -> WriterProcess:
        assert self.first_writer is not None
        return self.first_writer

    @property
    def configuration_operator(self) -> KazooClient:
        return self.workshop.configuration_operator

    def start_first_writer(self) -> WriterProcess:
        """The writer that the fault strikes: it goes through the proxies."""
        connection = self.scene.connection
        if connection.configuration_zookeeper is not None:
            connection = replace(connection, configuration_zookeeper=_addresses(self.configuration_proxies))
        self.first_writer = self._start(
            replace(connection, zookeeper=_addresses(self.proxies)),
            clock_skew_s=self.clock_skew_s,
            clock_step_s=self.clock_step_s,
            until=self.until,
        )
        return self.first_writer

    def start_rival(self, proxies: Sequence[Proxy] = (), plan_id: str = "") -> WriterProcess:
        """Another writer, of the same plan unless another is given, through proxies of its own or none."""
        connection = self.scene.connection
        if proxies:
            connection = replace(connection, zookeeper=_addresses(proxies))
        rival = self._start(connection, plan_id=plan_id)
        self.rivals.append(rival)
        return rival

    def _start(self, connection: ClusterConnection, plan_id: str = "", **circumstances: Any) -> WriterProcess:
        self._answers += 1
        answer = self.workshop.folder / f"{self.scene.root[1:]}-{self._answers}.json"
        plan_id = plan_id or self.plan.plan_id
        task = WriterTask(self.scene.lake.uri, plan_id, connection, self.settings, answer, **circumstances)
        return WriterProcess(self.workshop.context, task)

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
            told.append(self.finish(self._start(self.scene.connection)))
        self.last = told[-1]
        return len(told)

    def _is_final(self, told: Sequence[str]) -> bool:
        """Done, or the same refusal again and again: once more where another hand stands in the way, else twice."""
        same = 2 if not self.must_finish else 3
        return told[-1:] == ["done"] or (len(told) >= same and len(set(told[-same:])) == 1)

    def facts(self) -> RunFacts:
        """What the history of this run is to be judged against."""
        return RunFacts(
            root=self.scene.root,
            home=self.scene.connection.home,
            cluster=self.scene.connection.cluster,
            plan_id=self.plan.plan_id,
            steps=self.plan.steps,
            in_flight_steps=self.settings.in_flight_steps,
            step_deadline_ms=int(self.settings.step_deadline_s * 1000),
            ends_at_ms=int(self.plan.expires_at.timestamp() * 1000),
            approved_at_ms=self.plan.approved_at_ms,
            until_ms={FIRST_EPOCH: int(self.until.timestamp() * 1000)} if self.until else {},
            policy_paths=self.plan.policy_paths,
            switches_before=self.switches_before,
            foreign_sessions=frozenset({int(self.workshop.operator.client_id[0])}),
            disturbed=frozenset(self.disturbed),
            must_finish=self.must_finish,
            is_done=self.last == "done",
            is_admin_call=self.scene.kind is not LoadManager.EXTENSIBLE,
            has_records=self.scene.kind is not LoadManager.MODULAR,
            set_by_operator=self.set_by_operator,
            policy_edits_ms=self.policy_edits_ms,
            clock_limit_ms=int(self.settings.clock_offset_limit_s * 1000),
            max_steps=len(self.plan.steps),
            start_zxid=self.prepared_zxid,
        )


def _addresses(proxies: Sequence[Proxy]) -> str:
    return ",".join(proxy.address for proxy in proxies)
