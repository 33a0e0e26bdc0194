"""A way to ZooKeeper that lets so many connections through, and refuses the rest."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

CHUNK_BYTES = 65_536


class LimitedProxy:
    """Forwards connections on a loopback port; `limit` may be changed at any time."""

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
        while chunk := source.recv(CHUNK_BYTES):
            sink.sendall(chunk)
    for each in (source, sink):
        with suppress(OSError):
            each.shutdown(socket.SHUT_RDWR)


@contextmanager
def limited_proxy(upstream: str) -> Iterator[LimitedProxy]:
    """A proxy that ends with the block."""
    proxy = LimitedProxy(upstream)
    try:
        yield proxy
    finally:
        proxy.close()
