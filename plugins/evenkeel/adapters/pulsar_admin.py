"""Pulsar's admin API, as far as a step needs it: transfer, unload, split, and the lookup that drives them home."""

from __future__ import annotations

import logging
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import httpx

from evenkeel.adapters.bounded_http import BoundedHttp, read_body
from evenkeel.adapters.broker_access import BrokerAccess
from evenkeel.adapters.registrations import Registration
from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import EvenkeelError, RefusedError, UnavailableError
from evenkeel.model.outside_json import parse_json

MAX_REDIRECTS = 5
MOST_ATTEMPTS = 4
MOST_TRANSFERS = 8
TRANSFER_PAUSE_S = 0.25
RETRY_DELAY_S = 0.5
# Pulsar looks a persistent topic up only if it exists or may be made; of a non-persistent one it does not ask.
LOOKUP_DOMAIN = "non-persistent"
LOOKUP_KEYS = ("httpUrl", "httpUrlTls")
MOST_TOPIC_NAMES_TRIED = 1_000_000
LONGEST_REASON = 200
# A lookup's answer or a refusal has a few hundred bytes; beyond this a broker is broken or hostile.
LARGEST_ANSWER_BYTES = 1024 * 1024
NOT_NOW = frozenset({429, 503})
log = logging.getLogger(__name__)


class PulsarAdmin:
    """Admin calls to registered brokers; a redirect is followed only to one of them.

    Calls that change something are made again only where the first one surely changed nothing: nobody was
    reached, or the broker said "not now". A modular broker obeys a repeated unload although the bundle has
    arrived by then, and cuts its clients off twice. After any other trouble only the owner, read later, tells.

    No call for a step begins after its deadline, which the writer after this one waits for, nor does one go on beyond
    it, however slowly a broker answers; and before each further call that changes something `may_go_on` is asked,
    which raises if that writer is there.
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
        """An admin client of the brokers that are registered; `reread` finds those that came later."""
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
        """Until when calls for a step may begin whose intent is journalled now."""
        return time.monotonic() + self._timeout_s

    def transfer(self, bundle: str, owner: str, destination: str, deadline_s: float | None = None) -> None:
        """Ask for a bundle to be handed over, then drive it home.

        A modular cluster keeps the destination in its leader's memory and honours it at the next lookup, so the
        bundle is looked up at once rather than left to the clients. Only a call that plainly changed nothing is
        refused.
        """
        name = BundleName.parse(bundle)
        # Found before the call: a range too narrow to be looked up must not be unloaded.
        topic = name_topic_inside(name)
        deadline_s = deadline_s or self.deadline_s()
        for attempt in range(MOST_TRANSFERS):
            if attempt:
                # Each time a little later: the clients that were in the way have then found the bundle again.
                self._sleep(attempt * TRANSFER_PAUSE_S)
                self._may_go_on()
            try:
                path = f"{_path(name)}/unload?destinationBroker={destination}"
                self._change(owner, f"unload {bundle}", path, deadline_s)
            except RefusedError as refusal:
                if not attempt:
                    raise
                # The calls before this one have changed something: the owner, read later, tells what.
                log.warning("%s", refusal)
                return
            found = self._drive_home(name, topic, destination, deadline_s)
            # A call that takes as long as its forerunners must not be cut off half-way.
            has_time = deadline_s - time.monotonic() > self._timeout_s / 2
            if found is None or found == destination or not has_time:
                return
            log.warning("%s was to go to %s, and a lookup found it at %s", bundle, destination, found)
            # A client's lookup may use the leader's note of the destination up before the unload is over: then the
            # bundle is back where it was, or wherever the cluster saw fit, and that broker has to be asked.
            owner = found

    def unload(self, bundle: str, owner: str, deadline_s: float | None = None) -> None:
        """Ask for a bundle to be given up; whoever looks it up next makes the cluster choose an owner."""
        path = f"{_path(BundleName.parse(bundle))}/unload"
        self._change(owner, f"unload {bundle}", path, deadline_s or self.deadline_s())

    def split(self, bundle: str, owner: str, boundary: int, deadline_s: float | None = None) -> None:
        """Ask for a bundle to be cut in two at a boundary; both halves stay with the owner.

        Pulsar cuts only where the bundle has two topics or more, and some versions do nothing without saying so.
        """
        name = BundleName.parse(bundle)
        if not name.range.lower < boundary < name.range.upper:
            raise RefusedError(f"0x{boundary:08x} does not lie inside {bundle}", "choose a boundary inside the range")
        query = "unload=false&splitAlgorithmName=specified_positions_divide"
        path = f"{_path(name)}/split?{query}"
        self._change(owner, f"split {bundle}", path, deadline_s or self.deadline_s(), [boundary])

    def lookup(self, bundle: str, broker: str) -> str | None:
        """Who serves a bundle by a broker's word; a bundle without an owner is given one by this. None if unknown."""
        name = BundleName.parse(bundle)
        return self._look_up(name, name_topic_inside(name), broker, self.deadline_s())

    def drive_home(self, bundle: str, destination: str) -> None:
        """Look a bundle up at its destination, so that a cluster that has noted the destination honours it."""
        name = BundleName.parse(bundle)
        self._drive_home(name, name_topic_inside(name), destination, self.deadline_s())

    def _drive_home(self, name: BundleName, topic: str, destination: str, deadline_s: float) -> str | None:
        try:
            return self._look_up(name, topic, destination, deadline_s)
        except EvenkeelError as error:
            log.warning("%s could not be looked up, its clients will do so: %s", name, error)
            return None

    def _look_up(self, name: BundleName, topic: str, broker: str, deadline_s: float) -> str | None:
        answer = self._call("GET", broker, f"/lookup/v2/topic/{LOOKUP_DOMAIN}/{name.namespace}/{topic}", deadline_s)
        if not answer.is_success:
            raise UnavailableError(
                f"broker {broker} found no owner of {name} ({_tell(answer)})", "see that brokers are up and may own it"
            )
        document = _fields(answer)
        addresses = [_address(url) for key in LOOKUP_KEYS if isinstance(url := document.get(key), str)]
        return next((self._broker_at[address] for address in addresses if address in self._broker_at), None)

    def _change(self, owner: str, what: str, path: str, deadline_s: float, body: Any = None) -> None:
        answer = self._call("PUT", owner, path, deadline_s, body)
        if answer.is_client_error:
            raise RefusedError(f"broker {owner} refused to {what} ({_tell(answer)})", "see what the broker logs")
        if not answer.is_success:
            log.warning("broker %s answered to %s: %s", owner, what, _tell(answer))

    def _call(self, method: str, broker: str, path: str, deadline_s: float, body: Any = None) -> httpx.Response:
        """Make a call, a few times where it may be repeated; the last answer or failure counts."""
        for attempt in range(1, MOST_ATTEMPTS + 1):
            if attempt > 1:
                self._sleep(RETRY_DELAY_S * 2 ** (attempt - 2))
                if method != "GET":
                    self._may_go_on()
            is_last = attempt == MOST_ATTEMPTS
            try:
                answer = self._follow(method, broker, path, deadline_s, body)
            except _CallFailedError as error:
                if not is_last and (method == "GET" or error.reached_nobody):
                    continue
                raise
            is_passing = answer.status_code in NOT_NOW or (method == "GET" and answer.is_server_error)
            if not is_passing or is_last:
                return answer
        raise AssertionError("the last attempt returns or raises")

    def _follow(self, method: str, broker: str, path: str, deadline_s: float, body: Any) -> httpx.Response:
        url = httpx.URL(self._url_of(broker) + path)
        for _ in range(MAX_REDIRECTS):
            response = self._send(method, url, deadline_s, body)
            if not response.is_redirect:
                return response
            url = self._require_registered(url, response.headers.get("location", ""))
        raise UnavailableError(f"{method} {path} was redirected {MAX_REDIRECTS} times", "look into the brokers")

    def _send(self, method: str, url: httpx.URL, deadline_s: float, body: Any) -> httpx.Response:
        left_s = deadline_s - time.monotonic()
        if left_s <= 0:
            raise UnavailableError(
                f"{method} {url} could not be begun within {self._timeout_s:g} s, and was left",
                "see that the broker answers and this machine keeps up, then apply the plan again to go on",
            )
        try:
            with self._http.open(method, url, deadline_s, body) as response:
                # The body is decoded here, so the headers that say how it is encoded must not go with it.
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
        # A broker may redirect to the plain address of another one; a token must not follow it there.
        urls = [url for r in registrations for url in r.urls if url.startswith("http") and self._may_leave_tls]
        self._learn({r.broker_id: r.web_url for r in registrations}, urls)

    def _is_registered(self, origin: tuple[str, str, int | None]) -> bool:
        if origin not in self._registered and self._reread is not None:
            # The leader may have come after the run began.
            self._learn_registered(self._reread())
        return origin in self._registered

    def _url_of(self, broker: str) -> str:
        url = self._url_by_broker.get(broker)
        if url is None:
            raise RefusedError(f"broker {broker} is not registered", "see that it runs, then apply the plan again")
        return url

    def _require_registered(self, here: httpx.URL, location: str) -> httpx.URL:
        try:
            target = here.join(location)
        except (httpx.InvalidURL, ValueError):
            target = httpx.URL("")
        if not location or target.userinfo or not self._is_registered(_origin(str(target))):
            raise RefusedError(f"a broker redirects to {location!r}, which is not registered", "look into that broker")
        return target


class _CallFailedError(UnavailableError):
    """A call without an answer; `reached_nobody` if it cannot have had an effect."""

    def __init__(self, method: str, url: httpx.URL, error: Exception) -> None:
        super().__init__(f"{method} {url} failed ({type(error).__name__})", "see that the broker answers")
        self.reached_nobody = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout)

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return UnavailableError, (self.cause, self.remedy)


def name_topic_inside(bundle: BundleName) -> str:
    """The local name of a topic, existing or not, whose hash falls into a bundle."""
    for number in range(MOST_TOPIC_NAMES_TRIED):
        name = f"evenkeel-lookup-{number}"
        if zlib.crc32(f"{LOOKUP_DOMAIN}://{bundle.namespace}/{name}".encode()) in bundle.range:
            return name
    raise RefusedError(f"the range of {bundle} is too narrow to look up", "let a client connect to it")


def _path(name: BundleName) -> str:
    return f"/admin/v2/namespaces/{name.namespace}/{name.range}"


def _origin(url: str) -> tuple[str, str, int | None]:
    """Scheme, host and port: what makes two addresses one server."""
    try:
        parts = httpx.URL(url)
    except (httpx.InvalidURL, ValueError):
        return "", url, None
    return parts.scheme, parts.host, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _address(url: str) -> tuple[tuple[str, str, int | None], str]:
    """A server and a path there: behind a gateway, or simulated, brokers may share a server."""
    return _origin(url), url.partition("://")[2].partition("/")[2].rstrip("/")


def _fields(answer: httpx.Response) -> dict[str, Any]:
    """A broker's answer as a JSON object; any other one has no fields."""
    try:
        document = parse_json(answer.content)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _tell(answer: httpx.Response) -> str:
    """A broker's answer in few words: the status, and the first telling line of what it says."""
    reason = _fields(answer).get("reason")
    if not isinstance(reason, str):
        # Read as UTF-8 whatever the broker says: among the codecs that it could name are some that unpack archives.
        reason = answer.content.decode(errors="replace")
    lines = [line.removeprefix("Message:").strip() for line in reason.splitlines()]
    telling = next((line for line in lines if line and not line.startswith("---")), "")
    return f"{answer.status_code} {telling[:LONGEST_REASON]}".strip()
