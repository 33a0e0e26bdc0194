"""Pulsar's admin API, as far as steps need it: transfer, unload, split, and the lookup that completes a transfer.

An answer to a lookup never proves who owns a bundle: brokers answer from caches.
"""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.brokers.broker_http import BoundedHttp, read_body
from evenkeel.adapters.cluster.registrations import Registration
from evenkeel.adapters.machine import monotonic_s
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import EvenkeelError, RefusedError, UnavailableError
from evenkeel.model.outside_json import parse_json

MAX_REDIRECTS = 5
MOST_ATTEMPTS = 4
RETRY_DELAY_S = 0.5
# Pulsar looks up a persistent topic only if it exists or may be created; a non-persistent one it always looks up.
LOOKUP_DOMAIN = "non-persistent"
AUTHORITATIVE = "?authoritative=true"
LOOKUP_KEYS = ("httpUrl", "httpUrlTls")
MOST_TOPIC_NAMES_TRIED = 1_000_000
LONGEST_REASON = 200
# The answer to a lookup has a few hundred bytes; beyond this a broker is broken or hostile.
LARGEST_ANSWER_BYTES = 1024 * 1024
NOT_NOW = frozenset({429, 503})
log = logging.getLogger(__name__)


class PulsarAdmin:
    """Admin calls to registered brokers; a redirect is followed only to one of them.

    Calls that change something are repeated only if the first one certainly changed nothing: no broker was reached, or
    the broker said "not now". A modular broker obeys a repeated unload although the bundle has arrived by then, and
    disconnects its clients twice. After any other error only the owner, read later, tells what happened.

    No call for a step begins or continues after its deadline, which the next writer waits for, however slowly a broker
    answers. Before each further call that changes something `may_go_on` is called, which raises if there is another
    writer.
    """

    def __init__(
        self,
        url_by_broker: Mapping[str, str],
        timeout_s: float,
        access: BrokerAccess | None = None,
        sleep: Callable[[float], None] = time.sleep,
        reread: Callable[[], Sequence[Registration]] | None = None,
        may_go_on: Callable[[], None] = lambda: None,
    ) -> None:
        access = access or BrokerAccess()
        self._timeout_s = timeout_s
        self._may_go_on = may_go_on
        self._may_leave_tls = not access.prefers_tls
        self._sleep = sleep
        self._reread = reread
        self._learn(url_by_broker)
        self._http = BoundedHttp(access)

    @classmethod
    def of(
        cls,
        registrations: Sequence[Registration],
        timeout_s: float,
        access: BrokerAccess,
        reread: Callable[[], Sequence[Registration]] | None = None,
        may_go_on: Callable[[], None] = lambda: None,
    ) -> Self:
        """An admin client of the registered brokers; `reread` finds those that came later."""
        urls = {r.broker_id: r.web_url for r in registrations}
        admin = cls(urls, timeout_s, access, reread=reread, may_go_on=may_go_on)
        admin._learn_registered(registrations)
        return admin

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()

    def deadline_s(self) -> float:
        """Until when calls may begin for a step whose intent is journalled now."""
        return monotonic_s() + self._timeout_s

    def transfer(self, bundle: str, owner: str, destination: str, deadline_s: float | None = None) -> None:
        """Ask once for a bundle to be handed over; a modular cluster only notes the destination: `ModularTransfer`."""
        path = f"{_path(BundleName.parse(bundle))}/unload?destinationBroker={destination}"
        self._change(owner, f"unload {bundle}", path, deadline_s or self.deadline_s())

    def unload(self, bundle: str, owner: str, deadline_s: float | None = None) -> None:
        """Ask for a bundle to be released; the next lookup makes the cluster choose an owner."""
        path = f"{_path(BundleName.parse(bundle))}/unload"
        self._change(owner, f"unload {bundle}", path, deadline_s or self.deadline_s())

    def split(self, bundle: str, owner: str, boundary: int, deadline_s: float | None = None) -> None:
        """Ask for a bundle to be split at a boundary; both halves stay with the owner.

        Pulsar splits only a bundle with at least two topics; for others some versions silently do nothing.
        """
        name = BundleName.parse(bundle)
        if not name.range.lower < boundary < name.range.upper:
            raise RefusedError(f"0x{boundary:08x} is not inside {bundle}", "choose a boundary inside the range")
        query = "unload=false&splitAlgorithmName=specified_positions_divide"
        path = f"{_path(name)}/split?{query}"
        self._change(owner, f"split {bundle}", path, deadline_s or self.deadline_s(), [boundary])

    def lookup(self, bundle: str, broker: str) -> str | None:
        """Who serves a bundle according to a broker; None if unknown. A bundle without an owner gets one by this."""
        name = BundleName.parse(bundle)
        return self._look_up(name, name_topic_inside(name), broker, self.deadline_s())

    def enforce_destination(self, bundle: str, destination: str, deadline_s: float | None = None) -> None:
        """Look a bundle up at its destination, which makes the leader honour the destination that it has noted.

        If a client's lookup has used that note up, the leader chooses an owner anew and redirects there with
        `authoritative=true`: the broker that receives such a lookup takes the bundle. So it goes to the destination,
        whichever broker the leader has chosen.
        """
        self._try_lookup(bundle, destination, deadline_s, new_owner=destination)

    def take(self, bundle: str, broker: str, deadline_s: float | None = None) -> None:
        """Have a broker take a bundle if nobody owns it, without asking the leader; modular clusters only."""
        self._try_lookup(bundle, broker, deadline_s, AUTHORITATIVE)

    def _try_lookup(
        self, bundle: str, broker: str, deadline_s: float | None, query: str = "", new_owner: str | None = None
    ) -> None:
        name = BundleName.parse(bundle)
        deadline_s = deadline_s or self.deadline_s()
        try:
            self._look_up(name, name_topic_inside(name), broker, deadline_s, query, new_owner)
        except EvenkeelError as error:
            log.warning("the lookup of %s failed, clients will look it up: %s", name, error)

    def _look_up(
        self,
        name: BundleName,
        topic: str,
        broker: str,
        deadline_s: float,
        query: str = "",
        new_owner: str | None = None,
    ) -> str | None:
        path = f"/lookup/v2/topic/{LOOKUP_DOMAIN}/{name.namespace}/{topic}{query}"
        answer = self._call("GET", broker, path, deadline_s, new_owner=new_owner)
        if not answer.is_success:
            raise UnavailableError(
                f"broker {broker} found no owner of {name} ({_tell(answer)})",
                "check that brokers are up and may own it",
            )
        document = _fields(answer)
        addresses = [_address(url) for key in LOOKUP_KEYS if isinstance(url := document.get(key), str)]
        return next((self._broker_at[address] for address in addresses if address in self._broker_at), None)

    def _change(self, owner: str, what: str, path: str, deadline_s: float, body: Any = None) -> None:
        answer = self._call("PUT", owner, path, deadline_s, body)
        if answer.is_client_error:
            raise RefusedError(f"broker {owner} refused to {what} ({_tell(answer)})", "see the broker's log")
        if not answer.is_success:
            log.warning("broker %s answered to %s: %s", owner, what, _tell(answer))

    def _call(
        self, method: str, broker: str, path: str, deadline_s: float, body: Any = None, new_owner: str | None = None
    ) -> httpx.Response:
        """Make a call, repeatedly where that is safe; the last answer or failure counts."""
        for attempt in range(1, MOST_ATTEMPTS + 1):
            if attempt > 1:
                self._sleep(RETRY_DELAY_S * 2 ** (attempt - 2))
                if method != "GET":
                    self._may_go_on()
            is_last = attempt == MOST_ATTEMPTS
            try:
                answer = self._follow(method, broker, path, deadline_s, body, new_owner)
            except _CallFailedError as error:
                if not is_last and (method == "GET" or error.reached_nobody):
                    continue
                raise
            is_passing = answer.status_code in NOT_NOW or (method == "GET" and answer.is_server_error)
            if not is_passing or is_last:
                return answer
        raise AssertionError("the last attempt returns or raises")

    def _follow(
        self, method: str, broker: str, path: str, deadline_s: float, body: Any, new_owner: str | None
    ) -> httpx.Response:
        url = httpx.URL(self._url_of(broker) + path)
        for _ in range(MAX_REDIRECTS):
            response = self._send(method, url, deadline_s, body)
            if not response.is_redirect:
                return response
            url = self._require_registered(url, response.headers.get("location", ""))
            if new_owner is not None and url.params.get("authoritative") == "true":
                url = httpx.URL(self._url_of(new_owner) + path + AUTHORITATIVE)
        raise UnavailableError(f"{method} {path} was redirected {MAX_REDIRECTS} times", "check the brokers")

    def _send(self, method: str, url: httpx.URL, deadline_s: float, body: Any) -> httpx.Response:
        left_s = deadline_s - monotonic_s()
        if left_s <= 0:
            raise UnavailableError(
                f"{method} {url} was not sent: the {self._timeout_s:g} s for its step are over",
                "check that the broker answers and this machine keeps up, then apply the plan again to go on",
            )
        try:
            with self._http.open(method, url, deadline_s, body) as response:
                # The body is decoded here, so the headers that describe its encoding must go.
                headers = {"location": response.headers.get("location", "")}
                content = read_body(response, LARGEST_ANSWER_BYTES)
                return httpx.Response(response.status_code, headers=headers, content=content)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise _CallFailedError(method, url, error) from error

    def _learn(self, url_by_broker: Mapping[str, str], other_urls: Sequence[str] = ()) -> None:
        self._url_by_broker = dict(url_by_broker)
        self._broker_at = {_address(url): broker for broker, url in url_by_broker.items()}
        self._registered = frozenset(map(_origin, [*url_by_broker.values(), *other_urls]))

    def _learn_registered(self, registrations: Sequence[Registration]) -> None:
        # A broker may redirect to the plain-text address of another; a token must not be sent there.
        urls = [url for r in registrations for url in r.urls if url.startswith("http") and self._may_leave_tls]
        self._learn({r.broker_id: r.web_url for r in registrations}, urls)

    def _is_registered(self, origin: tuple[str, str, int | None]) -> bool:
        if origin not in self._registered and self._reread is not None:
            # The leader may have registered after the run began.
            self._learn_registered(self._reread())
        return origin in self._registered

    def _url_of(self, broker: str) -> str:
        url = self._url_by_broker.get(broker)
        if url is None:
            raise RefusedError(
                f"broker {broker} is not registered", "check that it is running, then apply the plan again"
            )
        return url

    def _require_registered(self, here: httpx.URL, location: str) -> httpx.URL:
        try:
            target = here.join(location)
        except (httpx.InvalidURL, ValueError):
            target = httpx.URL("")
        if not location or target.userinfo or not self._is_registered(_origin(str(target))):
            raise RefusedError(
                f"a broker redirects to {location!r}, which is not a registered broker", "check that broker"
            )
        return target


class _CallFailedError(UnavailableError):
    """A call without an answer; `reached_nobody` means that it cannot have had an effect."""

    def __init__(self, method: str, url: httpx.URL, error: Exception) -> None:
        super().__init__(f"{method} {url} failed ({type(error).__name__})", "check that the broker answers")
        self.reached_nobody = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return UnavailableError, (self.cause, self.remedy)


def name_topic_inside(bundle: BundleName) -> str:
    """The local name of a topic, existing or not, whose hash falls inside a bundle."""
    for number in range(MOST_TOPIC_NAMES_TRIED):
        name = f"evenkeel-lookup-{number}"
        if zlib.crc32(f"{LOOKUP_DOMAIN}://{bundle.namespace}/{name}".encode()) in bundle.range:
            return name
    raise RefusedError(f"the range of {bundle} is too narrow to look up", "let a client connect to it")


def _path(name: BundleName) -> str:
    return f"/admin/v2/namespaces/{name.namespace}/{name.range}"


def _origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port, which identify a server."""
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return "", url, None
    return parts.scheme, parts.host, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _address(url: str) -> tuple[tuple[str, str, int | None], str]:
    """A server and a path: behind a gateway, or simulated, several brokers may share a server."""
    return _origin(url), url.partition("://")[2].partition("/")[2].rstrip("/")


def _fields(answer: httpx.Response) -> dict[str, Any]:
    """A broker's answer as a JSON object; empty if it is none."""
    try:
        document = parse_json(answer.content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _tell(answer: httpx.Response) -> str:
    """A broker's answer in short: the status, and the first meaningful line of its text."""
    reason = _fields(answer).get("reason")
    if not isinstance(reason, str):
        # Always UTF-8, whatever the broker claims: some of the codecs that it could name unpack archives.
        reason = answer.content.decode(errors="replace")
    lines = [line.removeprefix("Message:").strip() for line in reason.splitlines()]
    telling = next((line for line in lines if line and not line.startswith("---")), "")
    return f"{answer.status_code} {telling[:LONGEST_REASON]}".strip()
