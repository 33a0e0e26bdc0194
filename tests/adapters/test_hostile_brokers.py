"""Brokers that answer drop by drop, without end, or with nonsense: a call ends in time, with one sentence."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from evenkeel.adapters.brokers.admin_api import LARGEST_ANSWER_BYTES, PulsarAdmin
from evenkeel.model.errors import RefusedError, UnavailableError
from support.answering_brokers import BUNDLE, Start, admin
from support.waiting import scaled

OK_LINE = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture
def dripping(request: pytest.FixtureRequest) -> Iterator[str]:
    """A server that sends a first part at once, then a byte at a time until the test ends: no read is ever late."""
    ended = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def drip() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = server.accept()
                    threading.Thread(target=drip_into, args=(connection,), daemon=True).start()

        def drip_into(connection: socket.socket) -> None:
            with contextlib.suppress(OSError), connection:
                connection.recv(65536)
                connection.sendall(request.param)
                while not ended.wait(0.05):
                    connection.sendall(b"x")

        threading.Thread(target=drip, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        ended.set()


@pytest.mark.parametrize(
    "dripping",
    [
        pytest.param(b"", id="status"),
        pytest.param(OK_LINE + b"X-Long: ", id="headers"),
        pytest.param(OK_LINE + b"Content-Length: 100000\r\n\r\n", id="body"),
        pytest.param(OK_LINE + b"\r\n", id="endless body"),
    ],
    indirect=True,
)
@pytest.mark.parametrize("call", ["unload", "lookup"])
def test_call_to_a_broker_that_drips_ends_at_its_time_out(dripping: str, call: str) -> None:
    # The broker drips on for as long as the test lasts, so only the time-out can end the call.
    with PulsarAdmin({"a": dripping}, 1.0) as calls, pytest.raises(UnavailableError):
        getattr(calls, call)(BUNDLE, "a")


def test_addresses_of_a_host_share_the_time_to_connect(monkeypatch: pytest.MonkeyPatch, start: Start) -> None:
    owner = start((204, ""))
    port = int(owner.url.rpartition(":")[2])
    known = socket.getaddrinfo

    def resolve(host: str, *arguments: Any, **more: Any) -> Any:
        addresses = ["127.0.0.2", "127.0.0.1"] if host == "broker" else [host]
        return [found for address in addresses for found in known(address, *arguments, **more)]

    with socket.create_server(("127.0.0.2", port), backlog=0), socket.create_connection(("127.0.0.2", port)):
        # Its queue is full, so it answers a further connection no more.
        monkeypatch.setattr(socket, "getaddrinfo", resolve)
        with PulsarAdmin({"a": f"http://broker:{port}"}, scaled(2.0)) as calls:
            calls.unload(BUNDLE, "a")
    assert len(owner.seen) == 1, "the first address left time for the second"


def test_answer_that_is_too_large_is_left(start: Start) -> None:
    owner = start((200, "x" * (LARGEST_ANSWER_BYTES + 1)))
    with admin({"a": owner.url}) as calls, pytest.raises(UnavailableError, match="AnswerTooLargeError"):
        calls.unload(BUNDLE, "a")
    assert len(owner.seen) == 1, "the broker may have obeyed"


DEEP = "[" * 200_000


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(DEEP, id="deep"),
        pytest.param('{"httpUrl": ' + DEEP, id="deep inside"),
        '{"httpUrl": 5}',
        '{"httpUrl": ["http://a"], "httpUrlTls": {}}',
        '{"httpUrl": "http://\\ud800/"}',
        '{"httpUrl": "http://["}',
        "[]",
        "",
    ],
)
def test_lookup_that_is_answered_with_nonsense_names_nobody(start: Start, answer: str) -> None:
    one = start((200, answer))
    with admin({"one": one.url}) as calls:
        assert calls.lookup(BUNDLE, "one") is None


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        pytest.param(DEEP, r"412 \[{200}\)", id="deep"),
        ('{"reason": 5}', r'412 {"reason": 5}\)'),
        ('["no"]', r'412 \["no"\]\)'),
        ("", r"\(412\)"),
    ],
)
def test_refusal_in_an_odd_form_is_told_in_short(start: Start, answer: str, told: str) -> None:
    owner = start((412, answer))
    with admin({"a": owner.url}) as calls, pytest.raises(RefusedError, match=told):
        calls.unload(BUNDLE, "a")
