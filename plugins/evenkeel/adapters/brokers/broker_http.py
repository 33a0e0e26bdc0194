"""HTTP to brokers: a deadline covers all of a call, an answer has a largest size, and many brokers are asked at once.

httpx's own time-outs cover one read or write each, so a broker that drips, be it the headers or the body, would hold a
call for ever. Here each of them gets what is left of the call's time. Only the look-up of a host name is beyond that:
the resolver has its own time-out. Whoever was told to stop does not wait for an answer until its deadline either.
"""

from __future__ import annotations

import math
import socket
import ssl
import threading
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from functools import partial
from types import TracebackType
from typing import Any, Protocol, Self

import httpcore
import httpx

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.machine import memory_bytes, monotonic_s
from evenkeel.model.errors import RunStoppedError

HTTP_OK = 200
PARALLEL_REQUESTS = 32
CONNECT_TIMEOUT_S = 5.0
# The statistics of all topics of a busy broker; beyond this a broker is broken or hostile.
LARGEST_BODY_BYTES = 512 * 1024 * 1024
# One answer may take an eighth of the machine's memory, and all answers that are held together half of it.
ANSWER_MEMORY_SHARE, ANSWERS_MEMORY_SHARE = 8, 2
ACCEPTED_ENCODING = "gzip"
# Tells zlib to expect gzip's header, with the largest window.
GZIP_WINDOW_BITS = 31
# A Date header has no fractions of a second.
DATE_RESOLUTION = timedelta(seconds=1)
MOST_CONNECTIONS = 100
# A broker closes idle connections sooner or later; a call that runs into that cannot tell what became of it.
LONGEST_IDLE_S = 5.0
# How soon a thread that waits for a broker notices that nobody wants the answer any more.
GIVE_UP_POLL_S = 0.2

_deadline_s: ContextVar[float] = ContextVar("deadline_s", default=math.inf)
GivesUp = Callable[[], bool]
_gives_up: ContextVar[GivesUp] = ContextVar("gives_up", default=lambda: False)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """A broker's answer to one request; `problem` says why there is no body.

    `clock_offset_s` is by how much this machine's clock is ahead of the broker's, or behind it, at the least.
    """

    url: str
    body: bytes | None
    problem: str | None = None
    status: int | None = None
    clock_offset_s: float | None = None


def clock_offsets(answers: Iterable[HttpAnswer]) -> list[float]:
    """How far this machine's clock is off according to answers; a broker that sends no date has no say."""
    return [answer.clock_offset_s for answer in answers if answer.clock_offset_s is not None]


class BrokerHttp(Protocol):
    """Fetches URLs in parallel, in order; an answer that is late, too large or a redirect has no body."""

    def fetch(self, urls: Sequence[str]) -> list[HttpAnswer]: ...


class PooledBrokerHttp:
    """The HTTP service of live brokers; once `gives_up` says so, no answer is waited for any more."""

    def __init__(self, timeout_s: float, access: BrokerAccess | None = None, gives_up: GivesUp = lambda: False) -> None:
        self._timeout_s = timeout_s
        self._gives_up = gives_up
        self._http = BoundedHttp(access or BrokerAccess(), CONNECT_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def fetch(self, urls: Sequence[str]) -> list[HttpAnswer]:
        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            allowance = BodyAllowance(memory_bytes() // ANSWERS_MEMORY_SHARE)
            answers = list(pool.map(partial(self._fetch_one, allowance), urls))
        if self._gives_up():
            # An answer that was not waited for must not pass for that of a silent broker.
            raise RunStoppedError("the run was told to stop", "run the same command again to go on")
        return answers

    def _fetch_one(self, allowance: BodyAllowance, url: str) -> HttpAnswer:
        deadline_s = monotonic_s() + self._timeout_s
        asked_at = datetime.now(UTC)
        offset_s = None
        # Each thread of the pool has a context of its own, which ends with it.
        _gives_up.set(self._gives_up)
        try:
            with self._http.open("GET", url, deadline_s) as response:
                offset_s = _clock_offset_s(response.headers.get("Date"), asked_at, datetime.now(UTC))
                if response.status_code != HTTP_OK:
                    return HttpAnswer(url, None, f"HTTP {response.status_code}", response.status_code, offset_s)
                most_bytes = min(LARGEST_BODY_BYTES, memory_bytes() // ANSWER_MEMORY_SHARE)
                return HttpAnswer(url, read_body(response, most_bytes, allowance), None, HTTP_OK, offset_s)
        except httpx.ReadTimeout:
            return HttpAnswer(url, None, f"not complete within {self._timeout_s:g} s", clock_offset_s=offset_s)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return HttpAnswer(url, None, str(error) or type(error).__name__, clock_offset_s=offset_s)


class AnswerTooLargeError(httpx.RequestError):
    """A broker's answer is larger than any that a healthy broker gives."""


class BoundedHttp:
    """A client of brokers. It follows no redirects and uses no proxy, which would see the token."""

    def __init__(self, access: BrokerAccess, connect_timeout_s: float = math.inf) -> None:
        self._access = access
        self._connect_timeout_s = connect_timeout_s
        self._client = httpx.Client(
            follow_redirects=False,
            trust_env=False,
            headers={"Accept-Encoding": ACCEPTED_ENCODING},
            transport=_Transport(access.tls()),
        )

    def close(self) -> None:
        self._client.close()

    @contextmanager
    def open(
        self,
        method: str,
        url: httpx.URL | str,
        deadline_s: float,
        body: Any = None,
        content: bytes | None = None,
    ) -> Iterator[httpx.Response]:
        """Send a request, with a JSON body or with bytes.

        The answer must be read inside the block, and reading it ends at the deadline.
        """
        # httpcore takes zero for "no time-out".
        left_s = max(deadline_s - monotonic_s(), 0.001)
        timeout = httpx.Timeout(left_s, connect=min(left_s, self._connect_timeout_s))
        headers = self._access.headers_for(str(url))
        former = _deadline_s.set(deadline_s)
        try:
            request = {"json": body, "content": content, "headers": headers, "timeout": timeout}
            with self._client.stream(method, url, **request) as response:
                yield response
        finally:
            _deadline_s.reset(former)


class BodyAllowance:
    """How many bytes of answers may be held in memory together, by all threads that read them."""

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = self._left_bytes = most_bytes
        self._lock = threading.Lock()

    def take(self, size: int) -> None:
        with self._lock:
            self._left_bytes -= size
            if self._left_bytes < 0:
                raise AnswerTooLargeError(f"the brokers' answers together have more than {self._most_bytes:,} bytes")


def read_body(response: httpx.Response, most_bytes: int, allowance: BodyAllowance | None = None) -> bytes:
    """The body of an open answer, decompressed; reading stops once it is too large.

    A few kilobytes of compressed zeros are megabytes, so what comes out of the decompressor is bounded, not what goes
    in; httpx's own decoding is not.
    """
    parts: list[bytes] = []
    size = 0
    for part in _decompress(response, most_bytes):
        size += len(part)
        if size > most_bytes:
            raise AnswerTooLargeError(f"more than {most_bytes} bytes")
        if allowance is not None:
            allowance.take(len(part))
        parts.append(part)
    return b"".join(parts)


def _decompress(response: httpx.Response, most_bytes: int) -> Iterator[bytes]:
    encoding = response.headers.get("Content-Encoding", "identity").strip().lower()
    if encoding == "identity":
        yield from response.iter_raw()
        return
    if encoding != ACCEPTED_ENCODING:
        raise httpx.DecodingError(f"the answer is encoded as {encoding[:20]!r}, which nobody asked for")
    decoder = zlib.decompressobj(wbits=GZIP_WINDOW_BITS)
    try:
        for chunk in response.iter_raw():
            # One byte more than allowed is enough to know that there are too many.
            yield decoder.decompress(chunk, most_bytes + 1)
    except zlib.error as error:
        raise httpx.DecodingError(f"the answer is not {ACCEPTED_ENCODING} ({error})") from error
    if not decoder.eof:
        raise httpx.DecodingError(f"the {ACCEPTED_ENCODING} data of the answer has no end")


def _clock_offset_s(date: str | None, asked_at: datetime, answered_at: datetime) -> float | None:
    """The least offset that explains an answer's date; None where it has none, or none that can be read."""
    try:
        told = parsedate_to_datetime(date or "")
        ahead, behind = asked_at - (told + DATE_RESOLUTION), told - answered_at
    except (TypeError, ValueError, OverflowError):
        return None
    return max(ahead.total_seconds(), 0.0) - max(behind.total_seconds(), 0.0)


class _Transport(httpx.HTTPTransport):
    """httpx's transport over sockets that know the deadline; only httpcore takes a network backend."""

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
    """Connects within the deadline of the call that this thread is making."""

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
        ends_s = monotonic_s() + _cap(timeout, httpcore.ConnectTimeout)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore.ConnectError(str(error)) from error
        addresses = [str(address[0]) for *_, address in found]
        failure: Exception = httpcore.ConnectTimeout("timed out")
        for tried, address in enumerate(addresses):
            # All addresses share the time, so one that swallows packets must leave some to the others.
            share_s = (ends_s - monotonic_s()) / (len(addresses) - tried)
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
        gives_up = _gives_up.get()
        ends_s = monotonic_s() + _cap(timeout, httpcore.ReadTimeout)
        while True:
            left_s = ends_s - monotonic_s()
            try:
                return self._stream.read(max_bytes, max(min(left_s, GIVE_UP_POLL_S), 0.001))
            except httpcore.ReadTimeout:
                if left_s <= GIVE_UP_POLL_S or gives_up():
                    raise

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
    left_s = _deadline_s.get() - monotonic_s()
    if left_s <= 0:
        raise too_late("timed out")
    return min(left_s, math.inf if timeout is None else timeout)
