"""A cluster of real Pulsar brokers: ZooKeeper, one bookie and a few brokers, each a process with a log file.

All processes end with the one that started them, even if that is killed (see evenkeel.local.supervised).
"""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Self

import httpx

from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.local.real_pulsar.configuration import BrokerAddress, ClusterShape, bookie_conf, broker_conf
from evenkeel.local.real_pulsar.jars import DEFAULT_JARS_HOME, LOG_SETTINGS, java_command, resolve_jars
from evenkeel.local.supervised import SupervisedProcess
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import RefusedError, UnavailableError

METADATA_CLASS = "org.apache.pulsar.PulsarClusterMetadataSetup"
BOOKIE_CLASS = "org.apache.bookkeeper.server.Main"
BROKER_CLASS = "org.apache.pulsar.PulsarBrokerStarter"
BOOKIE_HOST = "127.0.0.1"
PART_DEADLINE_S = 240.0
STOP_GRACE_S = 5.0
POLL_S = 0.25
PROBE_TIMEOUT_S = 5.0
HTTP_OK = 200
MOST_BROKERS = 9


class RealCluster:
    """A running cluster of real brokers; its folder keeps configurations, logs and data."""

    def __init__(self, home: Path, shape: ClusterShape | None = None, jars_home: Path = DEFAULT_JARS_HOME) -> None:
        self._home = home.resolve()
        self._shape = shape or ClusterShape()
        self._jars_home = jars_home
        if not 1 <= self._shape.brokers <= MOST_BROKERS:
            raise RefusedError(
                f"{self._shape.brokers} real brokers do not fit on one machine", f"start between 1 and {MOST_BROKERS}"
            )
        self._zookeeper = EmbeddedZooKeeper(self._home / "zookeeper")
        self._running = ExitStack()
        self._processes: dict[str, SupervisedProcess] = {}
        self._jars = Path()
        self.brokers: tuple[BrokerAddress, ...] = ()

    def __enter__(self) -> Self:
        self._jars = resolve_jars(self._jars_home, self._shape.version)
        self._home.mkdir(parents=True, exist_ok=True)
        self._log_settings.write_text(LOG_SETTINGS)
        with ExitStack() as starting:
            starting.enter_context(self._zookeeper)
            starting.callback(self._end_processes)
            hosts = [f"127.0.0.{place + 1}" for place in range(self._shape.brokers)]
            self.brokers = tuple(BrokerAddress(host, *find_free_ports(host, 2)) for host in hosts)
            self._set_up_metadata()
            self._start_bookie()
            for address in self.brokers:
                self._launch(address)
            for address in self.brokers:
                self._await_broker(address)
            self._await_whole_cluster()
            self._running = starting.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._running.close()

    @property
    def shape(self) -> ClusterShape:
        return self._shape

    @property
    def connection(self) -> ClusterConnection:
        """How to reach the cluster."""
        return ClusterConnection(self._shape.cluster, self._zookeeper.connect_string, timeout_s=30.0)

    @property
    def service_url(self) -> str:
        """What clients connect to: all brokers, so that one that is down does not matter."""
        return "pulsar://" + ",".join(f"{address.host}:{address.service_port}" for address in self.brokers)

    @property
    def serving(self) -> tuple[BrokerAddress, ...]:
        """The brokers that were not killed."""
        return tuple(address for address in self.brokers if address.broker_id in self._processes)

    def address(self, broker_id: str) -> BrokerAddress:
        for address in self.brokers:
            if address.broker_id == broker_id:
                return address
        raise RefusedError(f"{broker_id} is not a broker of this cluster", "name one of its brokers")

    def log_file(self, broker_id: str) -> Path:
        return self._home / f"{broker_id.replace(':', '-')}.log"

    def kill(self, broker_id: str) -> None:
        """Kill a broker at once, as a power cut would."""
        self._processes.pop(self.address(broker_id).broker_id).stop(grace_s=0)

    def start(self, broker_id: str) -> None:
        """Restart a broker that was killed, and wait until it serves."""
        address = self.address(broker_id)
        if broker_id in self._processes:
            raise RefusedError(f"{broker_id} is running", "kill it first")
        self._launch(address)
        self._await_broker(address)

    @property
    def _log_settings(self) -> Path:
        return self._home / "log4j2.properties"

    def _command(self, main_class: str, arguments: Sequence[str]) -> list[str]:
        return java_command(self._jars, self._log_settings, main_class, arguments)

    def _set_up_metadata(self) -> None:
        zookeeper, first = f"zk:{self._zookeeper.connect_string}", self.brokers[0]
        arguments = ["--cluster", self._shape.cluster, "--metadata-store", zookeeper]
        arguments += ["--configuration-metadata-store", zookeeper]
        arguments += ["--web-service-url", first.web_url, "--broker-service-url", first.service_url]
        process = SupervisedProcess(self._command(METADATA_CLASS, arguments), self._home / "metadata.log")
        process.start()
        if process.wait(PART_DEADLINE_S) != 0:
            raise UnavailableError("the cluster's metadata could not be set up", f"read {process.log_path}")

    def _start_bookie(self) -> None:
        (port,) = find_free_ports(BOOKIE_HOST, 1)
        conf = self._home / "bookkeeper.conf"
        conf.write_text(bookie_conf(self._home / "bookie", BOOKIE_HOST, port, self._zookeeper.connect_string))
        process = self._run("bookie", BOOKIE_CLASS, ["--conf", str(conf)])
        self._await(process, lambda: _listens(BOOKIE_HOST, port), "the bookie")

    def _launch(self, address: BrokerAddress) -> None:
        conf = self._home / f"{self.log_file(address.broker_id).stem}.conf"
        conf.write_text(broker_conf(self._shape, address, self._zookeeper.connect_string))
        self._run(address.broker_id, BROKER_CLASS, ["--broker-conf", str(conf)])

    def _run(self, name: str, main_class: str, arguments: Sequence[str]) -> SupervisedProcess:
        process = SupervisedProcess(self._command(main_class, arguments), self.log_file(name), cwd=self._home)
        process.start()
        self._processes[name] = process
        return process

    def _await_broker(self, address: BrokerAddress) -> None:
        ready = f"{address.web_url}/admin/v2/brokers/ready"
        self._await(self._processes[address.broker_id], lambda: _answers(ready), f"broker {address.broker_id}")

    def _await_whole_cluster(self) -> None:
        """Wait until every broker lists every other one, and there is a leader."""
        wanted = {address.broker_id for address in self.brokers}
        for address in self.brokers:
            process = self._processes[address.broker_id]
            listed = f"{address.web_url}/admin/v2/brokers/{self._shape.cluster}"
            self._await(process, partial(_knows, listed, wanted), f"broker {address.broker_id}")
        leader = f"{self.brokers[0].web_url}/admin/v2/brokers/leaderBroker"
        self._await(self._processes[self.brokers[0].broker_id], lambda: _answers(leader), "the leader")

    def _await(self, process: SupervisedProcess, is_ready: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + PART_DEADLINE_S
        while not is_ready():
            if process.poll() is not None:
                raise UnavailableError(f"{what} exited during startup", f"read {process.log_path}")
            if time.monotonic() > deadline_s:
                raise UnavailableError(f"{what} did not start in {PART_DEADLINE_S:.0f} s", f"read {process.log_path}")
            time.sleep(POLL_S)

    def _end_processes(self) -> None:
        """Stop brokers before the bookie that they write to; their data is thrown away, so none gets much time."""
        for name in sorted(self._processes, key=lambda name: name == "bookie"):
            self._processes[name].stop(STOP_GRACE_S if name == "bookie" else 0)
        self._processes.clear()


def find_free_ports(host: str, count: int) -> list[int]:
    """Find different ports of an address that nobody is listening on."""
    with ExitStack() as held:
        probes = [held.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind((host, 0))
        return [probe.getsockname()[1] for probe in probes]


def _listens(host: str, port: int) -> bool:
    try:
        with socket.create_connection((host, port), timeout=PROBE_TIMEOUT_S):
            return True
    except OSError:
        return False


def _get(url: str) -> httpx.Response | None:
    try:
        return httpx.get(url, timeout=PROBE_TIMEOUT_S, trust_env=False)
    except httpx.HTTPError:
        return None


def _answers(url: str) -> bool:
    answer = _get(url)
    return answer is not None and answer.status_code == HTTP_OK


def _knows(url: str, wanted: set[str]) -> bool:
    answer = _get(url)
    return answer is not None and answer.status_code == HTTP_OK and wanted <= set(answer.json())
