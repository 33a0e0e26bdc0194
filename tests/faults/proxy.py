"""A TCP proxy in front of ZooKeeper that cuts, stalls, refuses or holds, at a byte or at a moment of a run."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from evenkeel.local.embedded_zookeeper import LOOPBACK
from faults.frames import LENGTH, RequestKind, classify
from faults.moments import Phase, Script

CONNECT_RESPONSE = struct.Struct(">iiqi")
CONNECT_REQUEST = struct.Struct(">iqiqi16s?")
CONNECT_TIMEOUT_S = 5.0
NEW_SESSION_TIMEOUT_MS = 30_000


class Connection:
    """One client's connection through the proxy."""

    def __init__(self, proxy: Proxy, client: socket.socket, upstream: socket.socket) -> None:
        self.proxy = proxy
        self.client = client
        self.upstream = upstream
        self.session: tuple[int, bytes] | None = None
        self.is_configuration = proxy.is_configuration
        self.is_kept = False
        """Whether the client is kept when the server ends the connection; see `rehome`."""
        self._awaited: dict[int, tuple[Phase, str]] = {}

    def start(self) -> None:
        for relay in (self._relay_requests, self._relay_replies):
            threading.Thread(target=relay, daemon=True).start()

    def cut(self) -> None:
        """End both sides at once."""
        for end in (self.client, self.upstream):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    def rehome(self) -> None:
        """Give the client a new session without its knowledge: what it sends from now on reaches the server again."""
        upstream = socket.create_connection(self.proxy.target, timeout=CONNECT_TIMEOUT_S)
        request = CONNECT_REQUEST.pack(0, 0, NEW_SESSION_TIMEOUT_MS, 0, 16, bytes(16), False)
        upstream.sendall(LENGTH.pack(len(request)) + request)
        assert _read_frame(upstream) is not None
        upstream.settimeout(None)
        self.upstream = upstream
        threading.Thread(target=self._relay_replies, args=(False,), daemon=True).start()

    def _relay_requests(self) -> None:
        script = self.proxy.script
        is_first = True
        with contextlib.suppress(OSError):
            while (frame := _read_frame(self.client)) is not None:
                kind, bundle = self._classify(frame, is_first)
                is_first = False
                if script.pace_s and kind in (RequestKind.STEP, RequestKind.INTENT):
                    time.sleep(script.pace_s)
                phase = script.claims(kind)
                if phase is None:
                    self._send(frame, is_to_server=True)
                    continue
                if phase in (Phase.AFTER, Phase.DONE):
                    (xid,) = LENGTH.unpack_from(frame, LENGTH.size)
                    self._awaited[xid] = (phase, bundle)
                    self._send(frame, is_to_server=True)
                    continue
                half = len(frame) // 2 if phase is Phase.INSIDE else 0
                self._send(frame[:half], is_to_server=True)
                script.action(self, bundle)
                self._send(frame[half:], is_to_server=True)
        self.cut()

    def _classify(self, frame: bytes, is_first: bool) -> tuple[RequestKind, str]:
        kind, bundle = (RequestKind.CONNECT, "") if is_first else classify(frame[LENGTH.size :])
        if self.is_configuration and kind not in (RequestKind.CONNECT, RequestKind.OTHER):
            return RequestKind.READ_CONFIGURATION_STORE, ""
        return kind, bundle

    def _relay_replies(self, is_first: bool = True) -> None:
        upstream = self.upstream
        with contextlib.suppress(OSError):
            while (frame := _read_frame(upstream)) is not None:
                if is_first:
                    self._note_session(frame)
                    is_first = False
                (xid,) = LENGTH.unpack_from(frame, LENGTH.size)
                phase, bundle = self._awaited.pop(xid, (None, ""))
                if phase is Phase.AFTER:
                    self.proxy.script.action(self, bundle)
                self._send(frame, is_to_server=False)
                if phase is Phase.DONE:
                    self.proxy.script.action(self, bundle)
        if not self.is_kept:
            self.cut()

    def _send(self, content: bytes, is_to_server: bool) -> None:
        self.proxy.flowing.wait()
        place = self.proxy.script.claims_bytes(len(content), is_to_server)
        target = self.upstream if is_to_server else self.client
        if place is None:
            target.sendall(content)
            return
        target.sendall(content[:place])
        self.proxy.script.action(self, "")
        target.sendall(content[place:])

    def _note_session(self, frame: bytes) -> None:
        if len(frame) >= LENGTH.size + CONNECT_RESPONSE.size + 16:
            _, _, session, _ = CONNECT_RESPONSE.unpack_from(frame, LENGTH.size)
            start = LENGTH.size + CONNECT_RESPONSE.size
            self.session = (session, frame[start : start + 16])


class Proxy:
    """Listens on a free port and relays to one server."""

    def __init__(self, target: tuple[str, int], script: Script, is_configuration: bool = False) -> None:
        self.target = target
        self.script = script
        self.is_configuration = is_configuration
        self.flowing = threading.Event()
        self.flowing.set()
        self.is_refusing = False
        self.connections: list[Connection] = []
        self._listener = socket.create_server((LOOPBACK, 0))
        self.address = f"{LOOPBACK}:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def cut_all(self) -> None:
        for connection in self.connections:
            connection.cut()

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.flowing.set()
        self.cut_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._connect(client)

    def _connect(self, client: socket.socket) -> None:
        try:
            if self.is_refusing:
                raise ConnectionRefusedError
            upstream = socket.create_connection(self.target, timeout=CONNECT_TIMEOUT_S)
        except OSError:
            client.close()
            return
        upstream.settimeout(None)
        for end in (client, upstream):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection = Connection(self, client, upstream)
        self.connections.append(connection)
        connection.start()


def open_proxies(targets: Sequence[tuple[str, int]], script: Script, is_configuration: bool = False) -> list[Proxy]:
    """A proxy for each server, all with one script."""
    return [Proxy(target, script, is_configuration) for target in targets]


def _read_frame(source: socket.socket) -> bytes | None:
    """A whole frame with its length; None at the end of the stream."""
    head = _read_exactly(source, LENGTH.size)
    if head is None:
        return None
    body = _read_exactly(source, LENGTH.unpack(head)[0])
    return None if body is None else head + body


def _read_exactly(source: socket.socket, count: int) -> bytes | None:
    found = b""
    while len(found) < count:
        chunk = source.recv(count - len(found))
        if not chunk:
            return None
        found += chunk
    return found
