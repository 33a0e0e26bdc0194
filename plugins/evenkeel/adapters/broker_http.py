"""GET from many brokers at once; an answer that is late, too large or a redirect counts as none."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Protocol, Self

import httpx

from evenkeel.adapters.bounded_http import BoundedHttp, read_body
from evenkeel.adapters.broker_access import BrokerAccess

HTTP_OK = 200
PARALLEL_REQUESTS = 32
CONNECT_TIMEOUT_S = 5.0
# The statistics of all topics of a busy broker; beyond this a broker is broken or hostile.
LARGEST_BODY_BYTES = 512 * 1024 * 1024
# An answer's date has no fractions of a second.
DATE_RESOLUTION = timedelta(seconds=1)


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    """What a broker said to one request; `problem` says why there is no body.

    `clock_offset_s` is by how much this machine's clock is ahead of the broker's, or behind it, at the least.
    """

    url: str
    body: bytes | None
    problem: str | None = None
    status: int | None = None
    clock_offset_s: float | None = None


class BrokerHttp(Protocol):
    """Fetches URLs side by side; answers come in the order of the URLs."""

    def fetch(self, urls: Sequence[str]) -> list[HttpAnswer]: ...


class PooledBrokerHttp:
    """The HTTP service of running brokers."""

    def __init__(self, timeout_s: float, access: BrokerAccess | None = None) -> None:
        self._timeout_s = timeout_s
        self._http = BoundedHttp(access or BrokerAccess(), CONNECT_TIMEOUT_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def fetch(self, urls: Sequence[str]) -> list[HttpAnswer]:
        with ThreadPoolExecutor(PARALLEL_REQUESTS) as pool:
            return list(pool.map(self._fetch_one, urls))

    def _fetch_one(self, url: str) -> HttpAnswer:
        deadline_s = time.monotonic() + self._timeout_s
        asked_at = datetime.now(UTC)
        offset_s = None
        try:
            with self._http.open("GET", url, deadline_s) as response:
                offset_s = _clock_offset_s(response.headers.get("Date"), asked_at, datetime.now(UTC))
                if response.status_code != HTTP_OK:
                    return HttpAnswer(url, None, f"HTTP {response.status_code}", response.status_code, offset_s)
                return HttpAnswer(url, read_body(response, LARGEST_BODY_BYTES), None, HTTP_OK, offset_s)
        except httpx.ReadTimeout:
            return HttpAnswer(url, None, f"not complete within {self._timeout_s:g} s", clock_offset_s=offset_s)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return HttpAnswer(url, None, str(error) or type(error).__name__, clock_offset_s=offset_s)


def _clock_offset_s(date: str | None, asked_at: datetime, answered_at: datetime) -> float | None:
    """The least offset that explains an answer's date; None where it has none, or none that can be read."""
    try:
        told = parsedate_to_datetime(date or "")
        ahead, behind = asked_at - (told + DATE_RESOLUTION), told - answered_at
    except (TypeError, ValueError, OverflowError):
        return None
    return max(ahead.total_seconds(), 0.0) - max(behind.total_seconds(), 0.0)
