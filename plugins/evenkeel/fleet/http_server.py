"""One HTTP server on the loopback address for all simulated brokers; the first part of the path says which.

http://127.0.0.1:PORT/b01.fleet:8080/admin/v2/broker-stats/topics

Under the name `fleet` it takes the requests of `evenkeel.fleet.control`.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from evenkeel.fleet.admin_api import AdminApi, Answer, Request
from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.control import CONTROL_NAME, Faults, answer_control

LOOPBACK = "127.0.0.1"
MUTE_HOLD_S = 120.0
KEEP_ALIVE_S = 60.0
LISTEN_BACKLOG = 128

_log = logging.getLogger(__name__)


class BrokerHttpServer:
    """Serves Pulsar's HTTP surface for every broker of a fleet."""

    def __init__(self, port: int) -> None:
        self._stopping = threading.Event()
        self._answer: Callable[[Request], Answer] | None = None
        self._brokers: Mapping[str, SimulatedBroker] = {}
        self._faults: Faults | None = None
        self._server = _Server((LOOPBACK, port), _make_handler(self))
        self._thread = threading.Thread(target=self._server.serve_forever, name="fleet-http", daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def url_of(self, broker_id: str) -> str:
        """The webServiceUrl of a broker."""
        return f"http://{LOOPBACK}:{self.port}/{broker_id}"

    def start(self, brokers: Mapping[str, SimulatedBroker], api: AdminApi, faults: Faults) -> None:
        self._brokers, self._answer, self._faults = brokers, api.answer, faults
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def respond(self, method: str, target: str, body: bytes) -> Answer | None:
        """The answer to a request; None for a broker that is down or mute, which must stay unanswered."""
        parts = urlsplit(target)
        broker_id, _, path = parts.path.lstrip("/").partition("/")
        if broker_id == CONTROL_NAME and self._faults is not None:
            return Answer(*answer_control(self._faults, method, path, dict(parse_qsl(parts.query))))
        broker = self._brokers.get(unquote(broker_id))
        if broker is None or self._answer is None:
            return Answer(404, {"reason": f"there is no broker {unquote(broker_id)}"})
        if broker.is_mute:
            self._stopping.wait(MUTE_HOLD_S)
            return None
        if not broker.is_running:
            return None
        query = dict(parse_qsl(parts.query))
        return self._answer(Request(method, broker, f"/{unquote(path)}", query, body))


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = LISTEN_BACKLOG
    # Threads that hold a mute broker's callers must not hold up the end of the fleet.
    block_on_close = False

    def handle_error(self, request: Any, client_address: Any) -> None:
        _log.debug("the connection from %s broke", client_address, exc_info=True)


def _encode(body: Any) -> bytes:
    """Pulsar sends a plain word, such as that of a healthy broker, without quotes."""
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
            answer = owner.respond(self.command, self.path, body)
            if answer is None:
                self.close_connection = True
                return
            data = _encode(answer.body)
            self.send_response(answer.status)
            if answer.location:
                self.send_header("Location", answer.location)
            if data:
                self.send_header("Content-Type", "application/json")
            if answer.status != 204:
                self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            _log.debug(format, *args)

    return Handler
