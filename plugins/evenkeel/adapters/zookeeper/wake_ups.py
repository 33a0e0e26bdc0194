"""Room for kazoo's wake-ups, so that a lost session never blocks whoever sends requests.

kazoo wakes its own thread with one byte a request. On Linux a socket pair, which is what kazoo takes for that, is full
after some 280 single bytes. While there is no connection nobody reads them, and once the session is lost nobody ever
will: the next request, and kazoo's `stop` too, would wait for good. A pipe takes 65,536 bytes, which is far more than a
session ever has under way.
"""

from __future__ import annotations

import os
import threading

from kazoo.handlers.threading import SequentialThreadingHandler


def roomy_handler() -> SequentialThreadingHandler:
    """kazoo's threads, woken through a pipe."""
    handler = SequentialThreadingHandler()
    handler.create_socket_pair = open_pipe
    return handler


def open_pipe() -> tuple[PipeEnd, PipeEnd]:
    """What is read from, and what is written to."""
    read_end, write_end = os.pipe()
    return PipeEnd(read_end), PipeEnd(write_end)


class PipeEnd:
    """One end of a pipe, with those methods of a socket that kazoo calls."""

    def __init__(self, descriptor: int) -> None:
        # Better an error than a wait without an end, should a pipe ever be full.
        os.set_blocking(descriptor, False)
        self._descriptor = descriptor
        self._closing = threading.Lock()

    def fileno(self) -> int:
        return self._descriptor

    def send(self, data: bytes) -> int:
        # Under a lock: once closed, the number may belong to another file.
        with self._closing:
            return os.write(self._descriptor, data)

    def recv(self, most_bytes: int) -> bytes:
        with self._closing:
            return os.read(self._descriptor, most_bytes)

    def close(self) -> None:
        with self._closing:
            if self._descriptor >= 0:
                os.close(self._descriptor)
            self._descriptor = -1
