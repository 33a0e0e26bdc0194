"""One HTTP server on the loopback address for a whole fleet; the first part of the path is the broker's id.

    http://127.0.0.1:PORT/b01.fleet:8080/admin/v2/broker-stats/topics

Under the name `fleet` it injects faults. URL is `control` in the ready file, and `FleetControl` is the client:

    GET  URL                                     the leader, and the state of every broker
    POST URL/kill?broker=ID                      kill a broker
    POST URL/restart?broker=ID                   start a new incarnation
    POST URL/expire-session?broker=ID            expire its session with the local store; returns when the broker knows
    POST URL/expire-configuration-session?broker=ID
    POST URL/session-policy?broker=ID&policy=reconnect|shutdown
    POST URL/freeze?broker=ID                    stop its load reports
    POST URL/thaw?broker=ID
    POST URL/hand-over-delay?seconds=0
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

from evenkeel.fleet.admin_api import AdminApi, Request, Response
from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.model.errors import EvenkeelError, InputError, UnavailableError

CONTROL_NAME = "fleet"
CALL_TIMEOUT_S = 150.0
BAD_REQUEST = 400
CONFLICT = 409
LOOPBACK = "127.0.0.1"
MUTE_HOLD_S = 120.0
KEEP_ALIVE_S = 60.0
LISTEN_BACKLOG = 128

_log = logging.getLogger(__name__)


class FaultInjector(Protocol):
    """The faults that can be injected into a fleet, in this process or another."""

    def state(self) -> dict[str, Any]:
        """Return the leader and the state of every broker."""

    def kill_broker(self, broker_id: str) -> None:
        """Kill a broker: its session is closed, nothing is handed over or cleaned up."""

    def restart_broker(self, broker_id: str) -> None:
        """Start a new incarnation of a broker; kill it first if it is running."""

    def expire_session(self, broker_id: str) -> None:
        """Expire a broker's ZooKeeper session; returns when the broker knows."""

    def expire_configuration_session(self, broker_id: str) -> None:
        """Expire a broker's session with the configuration store; returns when the broker knows."""

    def set_session_policy(self, broker_id: str, policy: str) -> None:
        """Set what a broker does when it loses its session: reconnect or shutdown."""

    def freeze_reports(self, broker_id: str) -> None:
        """Stop a broker's load reports."""

    def thaw_reports(self, broker_id: str) -> None:
        """Let a frozen broker report its load again."""

    def set_hand_over_delay(self, seconds: float) -> None:
        """Set how long brokers take to close a bundle."""


def handle_control(fleet: FaultInjector, method: str, verb: str, query: Mapping[str, str]) -> tuple[int, Any]:
    """Carry out a control request; returns the HTTP status and the body."""
    on_broker: dict[str, Callable[[str], None]] = {
        "kill": fleet.kill_broker,
        "restart": fleet.restart_broker,
        "expire-session": fleet.expire_session,
        "expire-configuration-session": fleet.expire_configuration_session,
        "freeze": fleet.freeze_reports,
        "thaw": fleet.thaw_reports,
    }
    try:
        if method == "GET" and not verb:
            return 200, fleet.state()
        if method == "POST" and verb in on_broker:
            on_broker[verb](_required(query, "broker"))
        elif method == "POST" and verb == "session-policy":
            fleet.set_session_policy(_required(query, "broker"), _required(query, "policy"))
        elif method == "POST" and verb == "hand-over-delay":
            fleet.set_hand_over_delay(_seconds(_required(query, "seconds")))
        else:
            return 404, {"reason": f"unknown request: {method} {verb}"}
    except InputError as error:
        return BAD_REQUEST, {"reason": str(error)}
    except EvenkeelError as error:
        return CONFLICT, {"reason": str(error)}
    return 200, fleet.state()


def _required(query: Mapping[str, str], name: str) -> str:
    if name not in query:
        raise InputError(f"the parameter {name} is missing", f"add ?{name}=…")
    return query[name]


def _seconds(text: str) -> float:
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f"seconds = {text!r} is not a number", "use a number such as 0.05") from error


class FleetControl:
    """A client for a fleet in another process, at the `control` address of its ready file."""

    def __init__(self, url: str) -> None:
        self._url = url

    def state(self) -> dict[str, Any]:
        return self._call("GET", "")

    def kill_broker(self, broker_id: str) -> None:
        self._call("POST", "kill", broker=broker_id)

    def restart_broker(self, broker_id: str) -> None:
        self._call("POST", "restart", broker=broker_id)

    def expire_session(self, broker_id: str) -> None:
        self._call("POST", "expire-session", broker=broker_id)

    def expire_configuration_session(self, broker_id: str) -> None:
        self._call("POST", "expire-configuration-session", broker=broker_id)

    def set_session_policy(self, broker_id: str, policy: str) -> None:
        self._call("POST", "session-policy", broker=broker_id, policy=policy)

    def freeze_reports(self, broker_id: str) -> None:
        self._call("POST", "freeze", broker=broker_id)

    def thaw_reports(self, broker_id: str) -> None:
        self._call("POST", "thaw", broker=broker_id)

    def set_hand_over_delay(self, seconds: float) -> None:
        self._call("POST", "hand-over-delay", seconds=repr(seconds))

    def _call(self, method: str, verb: str, **query: str) -> dict[str, Any]:
        url = f"{self._url}/{verb}?{urlencode(query)}" if verb else self._url
        request = urllib.request.Request(url, method=method)
        try:
            with urllib.request.urlopen(request, timeout=CALL_TIMEOUT_S) as response:
                document: dict[str, Any] = json.load(response)
                return document
        except urllib.error.HTTPError as error:
            reason = json.load(error).get("reason", error.reason)
            raise InputError(f"the fleet rejected {verb}: {reason}", "correct the request") from error
        except OSError as error:
            raise UnavailableError(
                f"the fleet at {self._url} did not respond ({error})", "check that it is running"
            ) from error


class BrokerHttpServer:
    """Serves Pulsar's HTTP API for every broker of a fleet."""

    def __init__(self, port: int) -> None:
        self._stopping = threading.Event()
        self._handle: Callable[[Request], Response] | None = None
        self._brokers: Mapping[str, SimulatedBroker] = {}
        self._faults: FaultInjector | None = None
        self._server = _Server((LOOPBACK, port), _make_handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, name="fleet-http", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url_of(self, broker_id: str) -> str:
        """Return the webServiceUrl of a broker."""
        return f"http://{LOOPBACK}:{self.port}/{broker_id}"

    def start(self, brokers: Mapping[str, SimulatedBroker], api: AdminApi, faults: FaultInjector) -> None:
        self._brokers, self._handle, self._faults = brokers, api.handle, faults
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def respond(self, method: str, target: str, body: bytes) -> Response | None:
        """Return the response to a request; None if the broker is down or mute and must not respond."""
        parts = urlsplit(target)
        broker_id, _, path = parts.path.lstrip("/").partition("/")
        if broker_id == CONTROL_NAME and self._faults is not None:
            return Response(*handle_control(self._faults, method, path, dict(parse_qsl(parts.query))))
        broker = self._brokers.get(unquote(broker_id))
        if broker is None or self._handle is None:
            return Response(404, {"reason": f"no broker {unquote(broker_id)}"})
        if broker.is_mute:
            self._stopping.wait(MUTE_HOLD_S)
            return None
        if not broker.is_running:
            return None
        query = dict(parse_qsl(parts.query))
        return self._handle(Request(method, broker, f"/{unquote(path)}", query, body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = LISTEN_BACKLOG
    # Threads that keep the callers of a mute broker waiting must not delay the shutdown.
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("the connection from %s failed", client_address, exc_info=True)


def _encode(body: Any) -> bytes:
    """Encode a body; like Pulsar, send plain text such as the `ok` of a health check without quotes."""
    if body is None:
        return b""
    return body.encode() if isinstance(body, str) else json.dumps(body).encode()


def _make_handler(owner: BrokerHttpServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True
        timeout = KEEP_ALIVE_S
        wbufsize = -1

        def do_GET(self) -> None:
            self._serve()

        def do_PUT(self) -> None:
            self._serve()

        def do_POST(self) -> None:
            self._serve()

        def _serve(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            response = owner.respond(self.command, self.path, body)
            if response is None:
                self.close_connection = True
                return
            data = _encode(response.body)
            self.send_response(response.status)
            if response.location:
                self.send_header("Location", response.location)
            if data:
                self.send_header("Content-Type", "application/json")
            if response.status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            _log.debug(format, *args)

    return Handler
