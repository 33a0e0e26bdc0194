"""ZooKeeper for the harness: one server, or an ensemble of three, from the jars inside pyspark, with their logs."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from evenkeel.adapters.machine import find_java
from evenkeel.local.embedded_zookeeper import (
    JAVA_OPTIONS,
    LOOPBACK,
    EmbeddedZooKeeper,
    find_free_port,
    find_pyspark_jars,
)
from evenkeel.local.supervised import SupervisedProcess
from faults.txn_log import Transaction, read_log
from support.waiting import scaled

QUORUM_CLASS = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
MEMBERS = (1, 2, 3)
TICK_TIME_MS = 200
READY_TIMEOUT_S = scaled(90.0)
POLL_S = 0.1
PROBE_TIMEOUT_S = 2.0


class Layout(StrEnum):
    """What a run needs: one server, three of one ensemble, or two that know nothing of each other."""

    ONE = "one"
    ENSEMBLE = "ensemble"
    TWO_STORES = "two stores"


class Servers(Protocol):
    """What a run needs of ZooKeeper."""

    @property
    def hosts(self) -> str: ...

    @property
    def addresses(self) -> Sequence[tuple[str, int]]: ...

    def read_history(self, after_zxid: int) -> list[Transaction]: ...

    def restart_server(self) -> None:
        """Kill what serves now (of an ensemble the leader) and bring it back."""
        ...

    def lose_quorum(self, seconds: float) -> None:
        """Take so much away that nothing can be written, for a while."""
        ...

    def stop(self) -> None: ...


class SingleServer:
    """One server that keeps its port and data when it is restarted."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._server = EmbeddedZooKeeper(folder, TICK_TIME_MS)
        self._server.start()

    @property
    def hosts(self) -> str:
        return self._server.connect_string

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        host, _, port = self.hosts.partition(":")
        return [(host, int(port))]

    def read_history(self, after_zxid: int) -> list[Transaction]:
        return read_log(self._folder, after_zxid)

    def restart_server(self) -> None:
        self.lose_quorum(0.0)

    def lose_quorum(self, seconds: float) -> None:
        process = self._server._process
        assert process is not None
        process.stop(grace_s=0)
        time.sleep(seconds)
        self._server.start()

    def stop(self) -> None:
        self._server.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class SharedServer:
    """A server that somebody else has started, and uses too: it can be read and written, but not taken away."""

    def __init__(self, hosts: str, folder: Path) -> None:
        self.hosts = hosts
        self.folder = folder

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        host, _, port = self.hosts.partition(":")
        return [(host, int(port))]

    def read_history(self, after_zxid: int) -> list[Transaction]:
        return read_log(self.folder, after_zxid)

    def restart_server(self) -> None:
        raise NotImplementedError("others use this server")

    def lose_quorum(self, seconds: float) -> None:
        raise NotImplementedError("others use this server")

    def stop(self) -> None:
        """It goes on for the others."""


class Ensemble:
    """Three servers; any one may die."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._ports = {member: (find_free_port(), find_free_port(), find_free_port()) for member in MEMBERS}
        self._processes: dict[int, SupervisedProcess] = {}
        for member in MEMBERS:
            self._write_config(member)
            self._start(member)
        self._wait_until_whole()

    @property
    def hosts(self) -> str:
        return ",".join(f"{host}:{port}" for host, port in self.addresses)

    @property
    def addresses(self) -> Sequence[tuple[str, int]]:
        return [(LOOPBACK, self._ports[member][0]) for member in MEMBERS]

    def read_history(self, after_zxid: int) -> list[Transaction]:
        """The leader's log: what an earlier leader had not got through is not in it."""
        return read_log(self._folder / str(self._find_leader()), after_zxid)

    def restart_server(self) -> None:
        leader = self._find_leader()
        self._kill(leader)
        self._wait_for(lambda: self._leader_or_none() not in (None, leader), "another leader")
        self._start(leader)
        self._wait_until_whole()

    def lose_quorum(self, seconds: float) -> None:
        leader = self._find_leader()
        follower = next(member for member in MEMBERS if member != leader)
        for member in (follower, leader):
            self._kill(member)
        time.sleep(seconds)
        for member in (leader, follower):
            self._start(member)
        self._wait_until_whole()

    def stop(self) -> None:
        for process in self._processes.values():
            process.stop(grace_s=0)

    def _find_leader(self) -> int:
        self._wait_for(lambda: self._leader_or_none() is not None, "a leader")
        found = self._leader_or_none()
        assert found is not None
        return found

    def _leader_or_none(self) -> int | None:
        return next((m for m in MEMBERS if "Mode: leader" in _ask(self._ports[m][0])), None)

    def _wait_until_whole(self) -> None:
        self._wait_for(self._is_whole, "all three servers")

    def _is_whole(self) -> bool:
        for member in MEMBERS:
            # A port may have been taken meanwhile; then the server ends at once, and is started again.
            if self._processes[member].poll() is not None:
                self._start(member)
        return all("Mode: " in _ask(self._ports[member][0]) for member in MEMBERS)

    def _wait_for(self, is_met: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + READY_TIMEOUT_S
        while not is_met():
            if time.monotonic() > deadline_s:
                raise TimeoutError(f"the ensemble in {self._folder} did not show {what} in {READY_TIMEOUT_S:g} s")
            time.sleep(POLL_S)

    def _kill(self, member: int) -> None:
        self._processes.pop(member).stop(grace_s=0)

    def _start(self, member: int) -> None:
        home = self._folder / str(member)
        command = [str(find_java()), *JAVA_OPTIONS, "-cp", str(find_pyspark_jars() / "*"), QUORUM_CLASS]
        process = SupervisedProcess([*command, str(home / "zoo.cfg")], home / "server.log")
        process.start()
        self._processes[member] = process

    def _write_config(self, member: int) -> None:
        home = self._folder / str(member)
        (home / "data").mkdir(parents=True)
        (home / "data" / "myid").write_text(f"{member}\n")
        lines: dict[str, object] = {
            "dataDir": (home / "data").resolve(),
            "clientPort": self._ports[member][0],
            "clientPortAddress": LOOPBACK,
            "tickTime": TICK_TIME_MS,
            "minSessionTimeout": TICK_TIME_MS,
            "maxSessionTimeout": 120_000,
            "initLimit": 50,
            "syncLimit": 15,
            "maxClientCnxns": 0,
            "4lw.commands.whitelist": "*",
            "admin.enableServer": "false",
        }
        lines |= {f"server.{m}": f"{LOOPBACK}:{self._ports[m][1]}:{self._ports[m][2]}" for m in MEMBERS}
        (home / "zoo.cfg").write_text("".join(f"{key}={value}\n" for key, value in lines.items()))


def _ask(port: int, word: bytes = b"srvr") -> str:
    """A server's answer to a four-letter word; nothing where it does not answer."""
    answer = b""
    with suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=PROBE_TIMEOUT_S) as connection:
        connection.sendall(word)
        while chunk := connection.recv(4096):
            answer += chunk
    return answer.decode(errors="replace")
