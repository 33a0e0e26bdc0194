"""Requests to brokers as targets of faults: the fleet's HTTP server asks here before and after it answers one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from urllib.parse import unquote

from evenkeel.fleet.admin_api import Response
from evenkeel.fleet.fleet import Fleet
from faults.frames import classify_http
from faults.moments import Phase, Script
from faults.proxy import Proxy

DONE_DELAY_S = 0.02
"""How long after its answer a request counts as done: the server sends it after this module has seen it."""
_BUNDLE_PLACE = "/admin/v2/namespaces/"


@dataclass(slots=True)
class HttpExchange:
    """A request to a broker that a fault strikes at; the writer's session is the one that it has with ZooKeeper."""

    proxies: Sequence[Proxy]
    is_configuration: bool = False
    is_kept: bool = False
    is_cut: bool = field(default=False)

    @property
    def session(self) -> tuple[int, bytes] | None:
        found = [c.session for proxy in self.proxies for c in proxy.connections if c.session is not None]
        return found[-1] if found else None

    def cut(self) -> None:
        """Close the connection without an answer."""
        self.is_cut = True

    def rehome(self) -> None:
        raise NotImplementedError("a request by HTTP has no session of its own")


def watch_brokers(fleet: Fleet, script: Script, proxies: Sequence[Proxy]) -> None:
    """Let a script strike at the requests that a fleet's brokers get."""
    server = fleet._http
    assert server is not None
    answer = server.respond

    def respond(method: str, target: str, body: bytes) -> Response | None:
        phase = script.claims(classify_http(method, target))
        if phase is None:
            return answer(method, target, body)
        exchange, bundle = HttpExchange(proxies), _bundle_in(target)
        if phase is Phase.BEFORE:
            script.action(exchange, bundle)
            return None if exchange.is_cut else answer(method, target, body)
        response = answer(method, target, body)
        if phase is Phase.AFTER:
            script.action(exchange, bundle)
            return None if exchange.is_cut else response
        threading.Timer(DONE_DELAY_S, script.action, (exchange, bundle)).start()
        return response

    server.respond = respond  # type: ignore[method-assign]


def _bundle_in(target: str) -> str:
    """The bundle that an admin call names; nothing where it names none."""
    _, _, rest = unquote(target).partition("?")[0].partition(_BUNDLE_PLACE)
    return rest.rpartition("/")[0]
