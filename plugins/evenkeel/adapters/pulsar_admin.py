"""Pulsar's admin API, as far as a step needs it."""

from __future__ import annotations

import logging
import zlib
from collections.abc import Mapping
from types import TracebackType
from typing import Self

import httpx

from evenkeel.model.bundles import BundleName
from evenkeel.model.errors import EvenkeelError, RefusedError, UnavailableError

MAX_REDIRECTS = 5
# Pulsar looks a persistent topic up only if it exists or may be made; of a non-persistent one it does not ask.
LOOKUP_DOMAIN = "non-persistent"
MOST_TOPIC_NAMES_TRIED = 1_000_000
log = logging.getLogger(__name__)


class PulsarAdmin:
    """Admin calls to registered brokers; a redirect is followed only to one of them."""

    def __init__(self, url_by_broker: Mapping[str, str], timeout_s: float) -> None:
        self._url_by_broker = url_by_broker
        self._client = httpx.Client(timeout=timeout_s, follow_redirects=False, trust_env=False)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()

    def transfer(self, bundle: str, source: str, destination: str) -> None:
        """Ask for a bundle to be handed over, then drive it home.

        A modular cluster keeps the destination in its leader's memory and honours it at the next lookup, so the
        bundle is looked up at once rather than left to the clients. Only a call that plainly changed nothing is
        refused. After any other answer the bundle may be on its way: then only its owner, read later, tells.
        """
        name = BundleName.parse(bundle)
        topic = name_topic_inside(name)
        unload = f"/admin/v2/namespaces/{name.namespace}/{name.range}/unload?destinationBroker={destination}"
        answer = self._call("PUT", source, unload)
        if answer.is_client_error:
            raise RefusedError(
                f"broker {source} refused to unload {bundle} ({answer.status_code})", "see what the broker logs"
            )
        if not answer.is_success:
            log.warning("broker %s answered %d to the unload of %s", source, answer.status_code, bundle)
        self._look_up(f"/lookup/v2/topic/{LOOKUP_DOMAIN}/{name.namespace}/{topic}", destination, bundle)

    def _look_up(self, path: str, broker: str, bundle: str) -> None:
        try:
            answer = self._call("GET", broker, path)
        except EvenkeelError as error:
            log.warning("%s could not be looked up, its clients will do so: %s", bundle, error)
            return
        if not answer.is_success:
            log.warning("lookup of %s answered %d, its clients will do so", bundle, answer.status_code)

    def _call(self, method: str, broker: str, path: str) -> httpx.Response:
        url = self._url_by_broker[broker] + path
        for _ in range(MAX_REDIRECTS):
            response = self._send(method, url)
            if not response.is_redirect:
                return response
            url = self._require_registered(response.headers.get("location", ""))
        raise UnavailableError(f"{method} {path} was redirected {MAX_REDIRECTS} times", "look into the brokers")

    def _send(self, method: str, url: str) -> httpx.Response:
        try:
            return self._client.request(method, url)
        except httpx.HTTPError as error:
            raise UnavailableError(
                f"{method} {url} failed ({type(error).__name__})", "see that the broker answers"
            ) from error

    def _require_registered(self, location: str) -> str:
        if not any(location.startswith(f"{url}/") for url in self._url_by_broker.values()):
            raise RefusedError(f"a broker redirects to {location}, which is not registered", "look into that broker")
        return location


def name_topic_inside(bundle: BundleName) -> str:
    """The local name of a topic, existing or not, whose hash falls into a bundle."""
    for number in range(MOST_TOPIC_NAMES_TRIED):
        name = f"evenkeel-lookup-{number}"
        if zlib.crc32(f"{LOOKUP_DOMAIN}://{bundle.namespace}/{name}".encode()) in bundle.range:
            return name
    raise RefusedError(f"the range of {bundle} is too narrow to look up", "let a client connect to it")
