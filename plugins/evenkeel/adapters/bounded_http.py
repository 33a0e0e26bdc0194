"""HTTP to brokers whose calls end: one deadline is for all of a call, and an answer has a largest size.

httpx's own time-outs are for one read or write each, so a broker that drips, be it the headers or the body, would hold
a call for ever. Here each of them gets what is left of the call's time. Only the look-up of a host's name is beyond
that: the resolver keeps its own time.
"""

from __future__ import annotations

import math
import socket
import ssl
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import httpcore
import httpx

from evenkeel.adapters.broker_access import BrokerAccess

MOST_CONNECTIONS = 100
# A broker hangs up on an idle connection sooner or later; a call that meets with that cannot tell what became of it.
LONGEST_IDLE_S = 5.0

_deadline_s: ContextVar[float] = ContextVar("deadline_s", default=math.inf)


class AnswerTooLargeError(httpx.RequestError):
    """A broker's answer is larger than any that a sound broker gives."""


class BoundedHttp:
    """A client of brokers. It follows no redirect, and goes through no proxy, which would see the token."""

    def __init__(self, access: BrokerAccess, connect_timeout_s: float = math.inf) -> None:
        self._connect_timeout_s = connect_timeout_s
        self._client = httpx.Client(
            follow_redirects=False, trust_env=False, headers=access.headers, transport=_Transport(access.tls())
        )

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def open(self, method: str, url: httpx.URL | str, deadline_s: float, body: Any = None) -> Iterator[httpx.Response]:
        """Send a request; what is read of its answer inside the block is read by the deadline, or not at all."""
        # Zero would mean to httpcore that no time-out was given.
        left_s = max(deadline_s - time.monotonic(), 0.001)
        timeout = httpx.Timeout(left_s, connect=min(left_s, self._connect_timeout_s))
        token = _deadline_s.set(deadline_s)
        try:
            with self._client.stream(method, url, json=body, timeout=timeout) as response:
                yield response
        finally:
            _deadline_s.reset(token)


def read_body(response: httpx.Response, most_bytes: int) -> bytes:
    """The body of an open answer; one that is too large is left."""
    chunks, size = [], 0
    for chunk in response.iter_bytes():
        size += len(chunk)
        if size > most_bytes:
            raise AnswerTooLargeError(f"more than {most_bytes} bytes")
        chunks.append(chunk)
    return b"".join(chunks)


class _Transport(httpx.HTTPTransport):
    """httpx's transport over sockets that know the deadline; httpx has no argument for those, httpcore has."""

    def __init__(self, tls: ssl.SSLContext | bool) -> None:
        context = httpx.create_ssl_context(verify=tls, trust_env=False)
        super().__init__(verify=context)
        self._pool = httpcore.ConnectionPool(
            ssl_context=context,
            max_connections=MOST_CONNECTIONS,
            keepalive_expiry=LONGEST_IDLE_S,
            network_backend=_DeadlineBackend(),
        )


class _DeadlineBackend(httpcore.NetworkBackend):
    """Connects by the deadline of the call that is under way in this thread."""

    def __init__(self) -> None:
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        ends_s = time.monotonic() + _cap(timeout, httpcore.ConnectTimeout)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error
        addresses = [str(address[0]) for *_, address in found]
        failure: Exception = httpcore.ConnectTimeout("timed out")
        for tried, address in enumerate(addresses):
            # The time is for all addresses together, so one that swallows packets must leave some to the others.
            share_s = (ends_s - time.monotonic()) / (len(addresses) - tried)
            if share_s <= 0:
                break
            try:
                stream = self._sockets.connect_tcp(address, port, share_s, local_address, socket_options)
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                failure = error
            else:
                return _DeadlineStream(stream)
        raise failure


class _DeadlineStream(httpcore.NetworkStream):
    """A connection; a pooled one serves many calls, each by its own deadline."""

    def __init__(self, stream: httpcore.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, _cap(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, _cap(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left_s = _cap(timeout, httpcore.ConnectTimeout)
        return _DeadlineStream(self._stream.start_tls(ssl_context, server_hostname, left_s))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _cap(timeout: float | None, too_late: type[Exception]) -> float:
    """How long an operation may take; raises if the call has no time left."""
    left_s = _deadline_s.get() - time.monotonic()
    if left_s <= 0:
        raise too_late("timed out")
    return min(left_s, math.inf if timeout is None else timeout)
