"""TCP proxies in front of ZooKeeper: one that loses responses, one that limits the number of connections."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import Self

CHUNK = 65_536
LOOPBACK = "127.0.0.1"


class CuttingProxy:
    """Forwards both ways; once armed, it forwards the next request that contains a marker and loses the response."""

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server((LOOPBACK, 0))
        self._sockets: set[socket.socket] = set()
        self._marker: bytes | None = None
        self._swallow = False
        self._deaf_until_s = 0.0
        self._is_mute = False
        self.cuts = 0

    @property
    def connect_string(self) -> str:
        return f"{LOOPBACK}:{self._listener.getsockname()[1]}"

    def lose_answer_to(self, marker: bytes, swallow: bool = False) -> None:
        """Cut the connection once a request with this marker was forwarded, or `swallow` the request as well."""
        self._swallow, self._marker = swallow, marker

    def go_deaf(self, seconds: float) -> None:
        """Cut all connections and refuse new ones for so many seconds."""
        self._deaf_until_s = time.monotonic() + seconds
        self._cut_all()

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Pass requests on, and hold back every answer, while the connections stay open."""
        self._is_mute = True
        try:
            yield
        finally:
            self._is_mute = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()
        self._cut_all()

    def _accept(self) -> None:
        with suppress(OSError):
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
        with suppress(OSError):
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
        with suppress(OSError):
            while data := server.recv(CHUNK):
                if not muted.is_set() and not self._is_mute:
                    client.sendall(data)
        self._shut(client, server)

    def _cut_all(self) -> None:
        self._shut(*list(self._sockets))

    def _shut(self, *sockets: socket.socket) -> None:
        for one in sockets:
            with suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
            self._sockets.discard(one)


class LimitedProxy:
    """Forwards up to `limit` connections on a loopback port and refuses the rest; the limit may change at any time."""

    def __init__(self, upstream: str) -> None:
        host, _, port = upstream.rpartition(":")
        self._upstream = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.limit: int | None = None
        self.accepted = 0
        self.refused = 0
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._listener.getsockname()[1]}"

    def close(self) -> None:
        for each in [self._listener, *self._sockets]:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                incoming, _ = self._listener.accept()
                if self.limit is not None and self.accepted >= self.limit:
                    self.refused += 1
                    incoming.close()
                    continue
                self.accepted += 1
                outgoing = socket.create_connection(self._upstream)
                self._sockets += [incoming, outgoing]
                for pair in ((incoming, outgoing), (outgoing, incoming)):
                    threading.Thread(target=_pump, args=pair, daemon=True).start()


def _pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while chunk := source.recv(CHUNK):
            sink.sendall(chunk)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def limited_proxy(upstream: str) -> Iterator[LimitedProxy]:
    """A proxy that runs while the block does."""
    proxy = LimitedProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
