"""A real ZooKeeper server without an installation: PySpark contains its jars."""

from __future__ import annotations

import importlib.util
import logging
import socket
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from evenkeel.adapters.machine import find_java
from evenkeel.local.supervised import SupervisedProcess
from evenkeel.model.errors import UnavailableError

LOOPBACK = "127.0.0.1"
DEFAULT_TICK_TIME_MS = 200
MAX_SESSION_TIMEOUT_MS = 120_000
START_DEADLINE_S = 60.0
START_ATTEMPTS = 3
STOP_GRACE_S = 5.0
POLL_INTERVAL_S = 0.1
PROBE_TIMEOUT_S = 2.0
SERVER_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"
JAVA_OPTIONS = (
    "-Xms64m",
    "-Xmx512m",
    "-XX:+UseSerialGC",
    "-Dzookeeper.admin.enableServer=false",
    # The data need not survive a power cut, and a forced sync per write makes 5,000 bundles slow.
    "-Dzookeeper.forceSync=no",
)

_log = logging.getLogger(__name__)


class EmbeddedZooKeeper:
    """A single ZooKeeper server on a free port of the loopback address; it ends with this process."""

    def __init__(
        self,
        data_dir: Path,
        tick_time_ms: int = DEFAULT_TICK_TIME_MS,
        *,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        self._data_dir = data_dir
        self._tick_time_ms = tick_time_ms
        self._settings = dict(settings or {})
        """More lines of the configuration, such as a port for TLS."""
        self._java_options = tuple(java_options)
        self._port: int | None = None
        self._process: SupervisedProcess | None = None

    @property
    def connect_string(self) -> str:
        """What clients connect to, such as 127.0.0.1:2181."""
        if self._port is None:
            raise ValueError("the server has not been started; call start() first")
        return f"{LOOPBACK}:{self._port}"

    def start(self) -> None:
        """Start the server and wait until it serves; a restart keeps the port and the data."""
        options = (*JAVA_OPTIONS, *self._java_options)
        command = [str(find_java()), *options, "-cp", str(find_pyspark_jars() / "*"), SERVER_CLASS]
        deadline = time.monotonic() + START_DEADLINE_S
        for attempt in range(START_ATTEMPTS):
            port = self._port or find_free_port()
            process = SupervisedProcess([*command, str(self._write_config(port))], self._data_dir / "server.log")
            process.start()
            if _answers_before(port, process, deadline):
                self._port, self._process = port, process
                return
            process.stop(grace_s=0)
            _log.debug("attempt %d: ZooKeeper ended on port %d", attempt + 1, port)
        raise UnavailableError(
            "the embedded ZooKeeper did not start", f"read {self._data_dir / 'server.log'} for the reason"
        )

    def stop(self) -> None:
        """Stop the server; its data stays."""
        if self._process is not None:
            self._process.stop(STOP_GRACE_S)
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _write_config(self, port: int) -> Path:
        self._data_dir.mkdir(parents=True, exist_ok=True)
        path = self._data_dir / "zoo.cfg"
        lines = {
            "dataDir": (self._data_dir / "data").resolve(),
            "clientPort": port,
            "clientPortAddress": LOOPBACK,
            "tickTime": self._tick_time_ms,
            "minSessionTimeout": self._tick_time_ms,
            "maxSessionTimeout": MAX_SESSION_TIMEOUT_MS,
            # By default the server drops the 61st session of an address, and a fleet has one per broker.
            "maxClientCnxns": 0,
            "4lw.commands.whitelist": "*",
            "admin.enableServer": "false",
            **self._settings,
        }
        path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        return path


def find_pyspark_jars() -> Path:
    """The folder of jars inside the installed pyspark package."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise UnavailableError("pyspark is not installed", "install evenkeel with its dependencies")
    jars = Path(spec.origin).parent / "jars"
    if not any(jars.glob("zookeeper-*.jar")):
        raise UnavailableError(f"{jars} contains no ZooKeeper", "install the full pyspark package, not pyspark-client")
    return jars


def find_free_port() -> int:
    """Find a port of the loopback address that nobody is listening on."""
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port


def _answers_before(port: int, process: SupervisedProcess, deadline: float) -> bool:
    while process.poll() is None and time.monotonic() < deadline:
        if _is_serving(port):
            return True
        time.sleep(POLL_INTERVAL_S)
    return False


def _is_serving(port: int) -> bool:
    try:
        with socket.create_connection((LOOPBACK, port), timeout=PROBE_TIMEOUT_S) as connection:
            connection.sendall(b"srvr")
            answer = b""
            while chunk := connection.recv(4096):
                answer += chunk
    except OSError:
        return False
    # While the server is still loading its data, it says that it is "not currently serving requests".
    return b"Mode:" in answer
