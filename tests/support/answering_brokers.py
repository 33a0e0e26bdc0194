"""Brokers that answer admin calls with what a test gives them."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from evenkeel.adapters.brokers.admin_api import PulsarAdmin
from support.waiting import scaled

TIMEOUT_S = scaled(5.0)
BUNDLE = "shop/orders/0x40000000_0x80000000"
UNLOAD = f"/admin/v2/namespaces/{BUNDLE}/unload"
Reply = tuple[int, str]


@dataclass
class Broker:
    """A server that sends the replies of a list in order, the last one for ever, and records the requests."""

    replies: list[Reply]
    seen: list[tuple[str, str, bytes]] = field(default_factory=list)
    tokens: list[str | None] = field(default_factory=list)
    url: str = ""

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        self.seen.append((handler.command, handler.path, body))
        self.tokens.append(handler.headers.get("Authorization"))
        status, text = self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]
        handler.send_response(status)
        if status == 307:
            handler.send_header("Location", text)
            text = ""
        handler.send_header("Content-Length", str(len(text)))
        handler.end_headers()
        handler.wfile.write(text.encode())


Start = Callable[..., Broker]


@contextmanager
def answering_brokers() -> Iterator[Start]:
    """Yields a function that starts a broker with its replies; all brokers stop with the block."""
    with ExitStack() as stack:

        def build(*replies: Reply) -> Broker:
            broker = Broker(list(replies))

            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    broker.answer(self)

                def do_PUT(self) -> None:
                    broker.answer(self)

                def log_message(self, format: str, *args: object) -> None:
                    """Keep the test's output quiet."""

            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            stack.callback(server.shutdown)
            # The usual half-second poll would be added to the end of every test.
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            broker.url = f"http://127.0.0.1:{server.server_port}"
            return broker

        yield build


def admin(brokers: dict[str, str], **wishes: object) -> PulsarAdmin:
    return PulsarAdmin(brokers, TIMEOUT_S, sleep=lambda seconds: None, **wishes)  # type: ignore[arg-type]


def found_at(broker: Broker) -> Reply:
    return 200, json.dumps({"brokerUrl": "pulsar://x:1", "httpUrl": broker.url})
