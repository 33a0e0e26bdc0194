"""HTTP of brokers that are slow, large, elsewhere or not there."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from evenkeel.adapters.brokers import broker_http
from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.brokers.broker_http import HttpAnswer, PooledBrokerHttp, clock_offsets
from evenkeel.adapters.cluster.broker_clocks import require_good_clock
from evenkeel.model.errors import RefusedError

TIMEOUT_S = 1.0
# Brokers that drip go on until the tests of this module are over.
ENDED = threading.Event()


class Handler(BaseHTTPRequestHandler):
    """Answers by the path: /ok, /token, /moved, /denied, /slow, /slow-headers, /large."""

    def do_GET(self) -> None:
        status = {"/moved": 307, "/denied": 401}.get(self.path, 200)
        self.send_response(status)
        if self.path == "/moved":
            self.send_header("Location", "/ok")
        try:
            if self.path == "/slow-headers":
                self.flush_headers()
                while not ENDED.wait(TIMEOUT_S / 10):
                    self.wfile.write(b"X-More: x\r\n")
            self.end_headers()
            if self.path == "/slow":
                # Each read is in time, the whole never is.
                while not ENDED.wait(TIMEOUT_S / 10):
                    self.wfile.write(b".")
            self.wfile.write(b"x" * 2_000_000 if self.path == "/large" else self._body())
        except OSError:
            return

    def _body(self) -> bytes:
        return self.headers.get("Authorization", "none").encode() if self.path == "/token" else b"{}"

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        ENDED.set()
        server.shutdown()


def test_answers_come_in_the_order_of_the_urls(broker: str) -> None:
    urls = [f"{broker}/ok", f"{broker}/token", f"{broker}/denied", f"{broker}/ok"]
    with PooledBrokerHttp(TIMEOUT_S, BrokerAccess(token="t", token_over_plain_http=True)) as http:
        answers = http.fetch(urls)
    assert [a.url for a in answers] == urls
    assert [a.body for a in answers] == [b"{}", b"Bearer t", None, b"{}"]
    assert (answers[2].problem, answers[2].status) == ("HTTP 401", 401)


def test_redirect_is_not_followed(broker: str) -> None:
    with PooledBrokerHttp(TIMEOUT_S) as http:
        (answer,) = http.fetch([f"{broker}/moved"])
    assert (answer.body, answer.problem) == (None, "HTTP 307")


@pytest.mark.parametrize("path", ["/slow", "/slow-headers"])
def test_answer_that_drips_ends_at_the_deadline(broker: str, path: str) -> None:
    with PooledBrokerHttp(TIMEOUT_S) as http:
        (answer,) = http.fetch([broker + path])
    assert answer.body is None
    assert "within 1 s" in (answer.problem or "")
    assert not ENDED.is_set(), "the broker was still sending"


def test_body_beyond_the_bound_is_dropped(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_http, "LARGEST_BODY_BYTES", 1_000_000)
    with PooledBrokerHttp(TIMEOUT_S) as http:
        (answer,) = http.fetch([f"{broker}/large"])
    assert (answer.body, answer.problem) == (None, "more than 1000000 bytes")


def test_broker_that_is_not_there_is_a_problem_and_no_exception() -> None:
    with PooledBrokerHttp(TIMEOUT_S) as http:
        refused, nonsense = http.fetch(["http://127.0.0.1:1/ok", "http://[/ok"])
    assert refused.body is None
    assert refused.problem
    assert nonsense.body is None
    assert nonsense.problem


def test_answer_tells_how_far_the_clocks_are_apart(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with PooledBrokerHttp(TIMEOUT_S) as http:
        for path in ("/ok", "/denied"):
            assert http.fetch([broker + path])[0].clock_offset_s == 0.0
        late = time.time() - 60.0
        monkeypatch.setattr(Handler, "date_time_string", lambda *_: formatdate(late, usegmt=True))
        assert http.fetch([f"{broker}/ok"])[0].clock_offset_s == pytest.approx(59.5, abs=1.0)
        monkeypatch.setattr(Handler, "date_time_string", lambda *_: formatdate(late + 120.0, usegmt=True))
        assert http.fetch([f"{broker}/ok"])[0].clock_offset_s == pytest.approx(-59.5, abs=1.0)
        monkeypatch.setattr(Handler, "date_time_string", lambda *_: "the other day")
        assert http.fetch([f"{broker}/ok"])[0].clock_offset_s is None


@pytest.mark.parametrize(
    ("offsets_s", "is_good"),
    [
        ([], True),
        ([None, None], True),
        ([0.0, 0.0, 3_600.0], True),
        ([5.0], True),
        ([5.1], False),
        ([-60.0, None, -59.0], False),
    ],
)
def test_most_brokers_decide_whether_a_clock_is_off(offsets_s: list[float | None], is_good: bool) -> None:
    told_s = clock_offsets([HttpAnswer("http://b1:8080", b"{}", clock_offset_s=offset_s) for offset_s in offsets_s])
    if is_good:
        require_good_clock(told_s, limit_s=5.0)
    else:
        with pytest.raises(RefusedError, match="off the brokers', the limit is 5.0 s: synchronise the clocks"):
            require_good_clock(told_s, limit_s=5.0)
