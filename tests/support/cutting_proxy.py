"""A TCP proxy before ZooKeeper that loses answers: what was sent arrives, and the sender never hears of it."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self

CHUNK = 65_536
LOOPBACK = "127.0.0.1"


class CuttingProxy:
    """Forwards both ways; once armed, the next request that holds a marker is forwarded and its answer is lost."""

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server((LOOPBACK, 0))
        self._sockets: set[socket.socket] = set()
        self._marker: bytes | None = None
        self._swallow = False
        self._deaf_until_s = 0.0
        self.cuts = 0

    @property
    def connect_string(self) -> str:
        return f"{LOOPBACK}:{self._listener.getsockname()[1]}"

    def lose_answer_to(self, marker: bytes, swallow: bool = False) -> None:
        """Cut the connection after a request with this marker was passed on, or `swallow` the request itself too."""
        self._swallow, self._marker = swallow, marker

    def go_deaf(self, seconds: float) -> None:
        """Cut all connections, and take no new ones for a while."""
        self._deaf_until_s = time.monotonic() + seconds
        self._cut_all()

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self._cut_all()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if time.monotonic() < self._deaf_until_s:
                    client.close()
                    continue
                server = socket.create_connection(self._upstream)
                self._sockets |= {client, server}
                muted = threading.Event()
                threading.Thread(target=self._pass_on, args=(client, server, muted), daemon=True).start()
                threading.Thread(target=self._pass_back, args=(server, client, muted), daemon=True).start()

    def _pass_on(self, client: socket.socket, server: socket.socket, muted: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := client.recv(CHUNK):
                if self._marker is not None and self._marker in data:
                    self._marker = None
                    self.cuts += 1
                    muted.set()
                    if not self._swallow:
                        server.sendall(data)
                        # Long enough for the server to have done it.
                        time.sleep(0.2)
                    break
                server.sendall(data)
        self._shut(client, server)

    def _pass_back(self, server: socket.socket, client: socket.socket, muted: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while data := server.recv(CHUNK):
                if not muted.is_set():
                    client.sendall(data)
        self._shut(client, server)

    def _cut_all(self) -> None:
        self._shut(*list(self._sockets))

    def _shut(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
            self._sockets.discard(one)
