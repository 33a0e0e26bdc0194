"""The embedded ZooKeeper works, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.machine import find_java
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import UnavailableError
from support.waiting import scaled, wait_for

pytestmark = pytest.mark.zookeeper

PARENT = """
import sys, time
from pathlib import Path
from evenkeel.adapters.machine import find_java
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
with EmbeddedZooKeeper(Path(sys.argv[1])) as server:
    sys.stdout.write(server.connect_string + "\\n")
    sys.stdout.flush()
    time.sleep(300)
"""


def is_listening(connect_string: str) -> bool:
    host, _, port = connect_string.partition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2):
            return True
    except OSError:
        return False


def test_server_keeps_nodes_and_knows_the_four_letter_words(zookeeper: EmbeddedZooKeeper, client: KazooClient) -> None:
    client.create("/kept-by-the-server", b"x")
    assert client.get("/kept-by-the-server")[0] == b"x"
    assert client.server_version()[:2] == (3, 9)
    client.delete("/kept-by-the-server")


def test_server_carries_more_sessions_of_one_address_than_zookeepers_default(zookeeper: EmbeddedZooKeeper) -> None:
    clients = [KazooClient(zookeeper.connect_string) for _ in range(65)]
    try:
        for client in clients:
            client.start(timeout=scaled(10))
        assert all(client.connected for client in clients)
    finally:
        for client in clients:
            client.stop()
            client.close()


def test_short_session_time_outs_are_granted(zookeeper: EmbeddedZooKeeper) -> None:
    client = KazooClient(zookeeper.connect_string, timeout=0.6)
    client.start(timeout=scaled(10))
    try:
        assert client._session_timeout == 600
    finally:
        client.stop()
        client.close()


def test_restarted_server_has_its_port_and_its_data(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path)
    server.start()
    before = server.connect_string
    client = KazooClient(before)
    client.start(timeout=scaled(10))
    client.create("/survivor")
    client.stop()
    client.close()
    server.stop()
    assert not is_listening(before)
    with server:
        assert server.connect_string == before
        client = KazooClient(before)
        client.start(timeout=scaled(10))
        assert client.exists("/survivor")
        client.stop()
        client.close()


def test_server_is_gone_after_its_parent_was_killed(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        connect_string = parent.stdout.readline().strip()
        assert is_listening(connect_string)
        os.kill(parent.pid, signal.SIGKILL)
    wait_for(lambda: not is_listening(connect_string), "ZooKeeper ended with its parent")


def test_missing_java_is_reported_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    with pytest.raises(UnavailableError, match="Java was not found: install"):
        find_java()
