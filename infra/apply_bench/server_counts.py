"""Requests as the server counts them: `recved` of each session's connection in the answer to the word `cons`."""

from __future__ import annotations

import re
import socket
import threading
from types import TracebackType
from typing import Self

POLL_S = 0.1
TIMEOUT_S = 5.0
_CONNECTION = re.compile(r"recved=(\d+),sent=\d+,sid=(0x[0-9a-f]+)")


def read_received(address: tuple[str, int]) -> dict[str, int]:
    """Packets that the server has received from each session, by session id; a multi is one, and so is a ping."""
    answer = b""
    with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
        connection.sendall(b"cons")
        while chunk := connection.recv(65536):
            answer += chunk
    return {session: int(count) for count, session in _CONNECTION.findall(answer.decode())}


class RequestCounter:
    """Counts what sessions that begin from now on send; a connection's count is lost with it, so it is asked often."""

    def __init__(self, hosts: str) -> None:
        host, _, port = hosts.partition(":")
        self._address = (host, int(port))
        self._before = set(read_received(self._address))
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()
        self._must_end = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)

    @property
    def total(self) -> int:
        return sum(self._seen.values())

    def look(self) -> None:
        """Ask the server now."""
        found = read_received(self._address)
        with self._lock:
            for session, count in found.items():
                if session not in self._before:
                    self._seen[session] = max(count, self._seen.get(session, 0))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._must_end.set()
        self._thread.join()

    def _poll(self) -> None:
        while not self._must_end.wait(POLL_S):
            self.look()
