"""An ensemble that has lost its majority and answers reads only: one sentence, and nothing is written."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel.adapters.machine import find_java
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.local.embedded_zookeeper import JAVA_OPTIONS, LOOPBACK, find_free_port, find_pyspark_jars
from evenkeel.local.supervised import SupervisedProcess
from evenkeel.model.errors import UnavailableError
from support.waiting import eventually

pytestmark = pytest.mark.zookeeper

SERVERS = 3


@pytest.fixture
def survivor(tmp_path: Path) -> Iterator[str]:
    """The one server of three that runs; it allows reads only."""
    ports = [find_free_port() for _ in range(2 * SERVERS + 1)]
    client_port = ports.pop()
    (tmp_path / "myid").write_text("1")
    servers = [f"server.{n + 1}={LOOPBACK}:{ports[2 * n]}:{ports[2 * n + 1]}\n" for n in range(SERVERS)]
    configuration = tmp_path / "zoo.cfg"
    configuration.write_text(
        f"dataDir={tmp_path}\nclientPort={client_port}\nclientPortAddress={LOOPBACK}\ntickTime=500\ninitLimit=10\n"
        f"syncLimit=5\n4lw.commands.whitelist=*\nadmin.enableServer=false\n{''.join(servers)}"
    )
    command = [
        str(find_java()),
        *JAVA_OPTIONS,
        "-Dreadonlymode.enabled=true",
        "-cp",
        str(find_pyspark_jars() / "*"),
        "org.apache.zookeeper.server.quorum.QuorumPeerMain",
        str(configuration),
    ]
    server = SupervisedProcess(command, tmp_path / "server.log")
    server.start()
    try:
        yield f"{LOOPBACK}:{client_port}"
    finally:
        server.stop(grace_s=0)


def ask(server: str, word: bytes) -> bytes:
    host, _, port = server.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0) as connection:
            connection.sendall(word)
            return connection.recv(64)
    except OSError:
        return b""


def test_read_only_ensemble_is_one_sentence(survivor: str) -> None:
    assert eventually(lambda: ask(survivor, b"isro") == b"ro", within_s=60.0), "it serves reads only"
    with (
        pytest.raises(UnavailableError, match="did not answer within 3 s: .* a majority of the servers is running"),
        ZooKeeperSession(survivor, 2.0, 3.0),
    ):
        pass
