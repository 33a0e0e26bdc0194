"""Counts requests at the server: `recved` of each session's connection in the reply to the command `cons`."""

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
    reply = b""
    with socket.create_connection(address, timeout=TIMEOUT_S) as connection:
        connection.sendall(b"cons")
        while chunk := connection.recv(65536):
            reply += chunk
    return {session: int(count) for count, session in _CONNECTION.findall(reply.decode())}


class RequestCounter:
    """Counts the requests of new sessions; polls, because the server forgets the count of a closed connection."""

    def __init__(self, hosts: str) -> None:
        host, _, port = hosts.partition(":")
        self._address = (host, int(port))
        self._before = set(read_received(self._address))
        self._seen: dict[str, int] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._keep_polling, daemon=True)

    @property
    def total(self) -> int:
        return sum(self._seen.values())

    def poll(self) -> None:
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
        self._stopping.set()
        self._thread.join()

    def _keep_polling(self) -> None:
        while not self._stopping.wait(POLL_S):
            self.poll()
