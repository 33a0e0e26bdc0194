"""A broker that sends 70 kB which would take 1.7 GB of memory: refused in one sentence, at the cost of a few MB."""

from __future__ import annotations

import gzip
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evenkeel.adapters import machine
from evenkeel.adapters.brokers import broker_http
from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.brokers.broker_http import PooledBrokerHttp
from evenkeel.adapters.cluster.json_documents import decode_json
from evenkeel.model.errors import InputError
from support.waiting import scaled

TIMEOUT_S = scaled(30.0)
MEBIBYTE = 1024 * 1024
PLAIN_BOMB = b"[" + b"{}," * 24_000_000 + b"{}]"
BOMB = gzip.compress(PLAIN_BOMB, 9)
USUAL = b'{"answer": 42}'


class Handler(BaseHTTPRequestHandler):
    """Answers with the encoding and the body that the path names."""

    def do_GET(self) -> None:
        encoding, body = {
            "/bomb": ("gzip", BOMB),
            "/gzip": ("GZIP", gzip.compress(USUAL)),
            "/cut": ("gzip", gzip.compress(USUAL)[:-9]),
            "/lie": ("gzip", USUAL),
            "/br": ("br", USUAL),
            "/plain": ("identity", USUAL),
            "/asked": ("identity", str(self.headers["Accept-Encoding"]).encode()),
        }[self.path]
        self.send_response(200)
        self.send_header("Content-Encoding", encoding)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""


@pytest.fixture(scope="module")
def broker() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


READER = """
import resource, sys
from evenkeel.adapters import machine
machine.memory_bytes = lambda: 4 * 1024**3
from evenkeel.adapters.brokers.broker_http import PooledBrokerHttp
from evenkeel.adapters.cluster.json_documents import decode_json
from evenkeel.model.errors import InputError
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with PooledBrokerHttp({timeout_s}) as http:
    (answer,) = http.fetch([{url!r}])
try:
    decode_json(answer.body, "broker b1")
except InputError as error:
    print(error)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_bomb_is_refused_before_it_takes_memory(broker: str) -> None:
    assert len(BOMB) < 80_000, "a small answer"
    done = subprocess.run(
        [sys.executable, "-c", READER.format(timeout_s=TIMEOUT_S, url=f"{broker}/bomb")],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=True,
    )
    sentence, grown_kib = done.stdout.splitlines()
    assert sentence == (
        "broker b1 is not JSON (it could take 9,816 MB of memory, the limit is 2,147 MB): "
        "repair the document, or restart what writes it"
    )
    # The bytes themselves, the parts they came in, and the joined whole; the parsed value would be 1.7 GB.
    assert int(grown_kib) / 1024 < 3 * len(PLAIN_BOMB) / MEBIBYTE + 64


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("/cut", "the gzip data of the answer has no end"),
        ("/lie", "the answer is not gzip (Error -3 while decompressing data: incorrect header check)"),
        ("/br", "the answer is encoded as 'br', which nobody asked for"),
    ],
)
def test_answer_in_a_false_encoding_is_a_problem(broker: str, path: str, problem: str) -> None:
    with PooledBrokerHttp(TIMEOUT_S) as http:
        (answer,) = http.fetch([broker + path])
    assert (answer.body, answer.problem) == (None, problem)


def test_compressed_and_plain_answers_are_read(broker: str) -> None:
    with PooledBrokerHttp(TIMEOUT_S, BrokerAccess()) as http:
        answers = http.fetch([f"{broker}/gzip", f"{broker}/plain", f"{broker}/asked"])
    assert [answer.body for answer in answers] == [USUAL, USUAL, b"gzip"]


def test_limits_follow_the_memory_of_the_machine(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_http, "memory_bytes", lambda: 16 * MEBIBYTE)
    with PooledBrokerHttp(TIMEOUT_S) as http:
        (answer,) = http.fetch([f"{broker}/bomb"])
    assert (answer.body, answer.problem) == (None, f"more than {2 * MEBIBYTE} bytes")


def test_answers_together_have_a_limit_too(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(broker_http, "memory_bytes", lambda: 8 * len(USUAL))
    with PooledBrokerHttp(TIMEOUT_S) as http:
        answers = http.fetch([f"{broker}/plain"] * 10)
    assert sum(answer.body is not None for answer in answers) == 4
    told = {answer.problem for answer in answers if answer.body is None}
    assert told == {f"the brokers' answers together have more than {4 * len(USUAL)} bytes"}


def test_memory_is_that_of_the_container_where_it_has_less(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(machine, "CGROUP_LIMITS", (tmp_path / "none", limit))
    own = []
    for text in ("max\n", "1000000\n"):
        limit.write_text(text)
        machine.memory_bytes.cache_clear()
        own.append(machine.memory_bytes())
    machine.memory_bytes.cache_clear()
    assert own[0] > own[1] == 1_000_000


def test_document_of_a_broker_may_take_half_of_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evenkeel.adapters.cluster.json_documents.memory_bytes", lambda: 2_400)
    assert decode_json(b"[{},{}]", "b1") == [{}, {}]
    with pytest.raises(InputError, match=r"b1 is not JSON \(it could take 0 MB"):
        decode_json(b"[{},{},{},{}]", "b1")
