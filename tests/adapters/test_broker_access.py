"""Brokers that ask for a token or a certificate, reached with what the settings point to."""

from __future__ import annotations

import ssl
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.brokers.broker_http import PooledBrokerHttp
from evenkeel.model.errors import InputError
from evenkeel.model.settings import Settings
from support.waiting import scaled

TIMEOUT_S = scaled(10.0)


class Handler(BaseHTTPRequestHandler):
    """Answers with the token that it was shown."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write((self.headers.get("Authorization") or "none").encode())

    def log_message(self, format: str, *args: object) -> None:
        """Keep the test's output quiet."""


def certify(folder: Path, name: str, *more: str) -> None:
    """A key and a certificate that signs itself, for the loopback address."""
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"),
            *("-keyout", str(folder / f"{name}.key"), "-out", str(folder / f"{name}.pem"), *more),
        ],
        check=True,
        capture_output=True,
    )


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    certify(folder, "broker", "-addext", "subjectAltName=IP:127.0.0.1")
    certify(folder, "evenkeel")
    return folder


@pytest.fixture(scope="module")
def strict_broker(certificates: Path) -> Iterator[str]:
    """A broker that speaks TLS only, and wants to know whom with."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificates / "broker.pem", certificates / "broker.key")
    context.load_verify_locations(certificates / "evenkeel.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"https://127.0.0.1:{server.server_port}/"
        server.shutdown()


def access(certificates: Path, **changes: str | None) -> BrokerAccess:
    values = {
        "broker_ca_file": str(certificates / "broker.pem"),
        "broker_certificate_file": str(certificates / "evenkeel.pem"),
        "broker_key_file": str(certificates / "evenkeel.key"),
    }
    return BrokerAccess.from_settings(Settings(**(values | changes)))  # type: ignore[arg-type]


def test_certificate_and_token_open_a_strict_broker(certificates: Path, strict_broker: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("abc.def\n")
    with PooledBrokerHttp(TIMEOUT_S, access(certificates, broker_token_file=str(tmp_path / "token"))) as http:
        (answer,) = http.fetch([strict_broker])
    assert answer.body == b"Bearer abc.def", answer.problem


def test_broker_of_an_unknown_authority_is_not_asked(certificates: Path, strict_broker: str) -> None:
    with PooledBrokerHttp(TIMEOUT_S, access(certificates, broker_ca_file=None)) as http:
        (answer,) = http.fetch([strict_broker])
    assert answer.body is None
    assert "CERTIFICATE_VERIFY_FAILED" in str(answer.problem)


def test_strict_broker_turns_a_stranger_away(certificates: Path, strict_broker: str) -> None:
    stranger = access(certificates, broker_certificate_file=None, broker_key_file=None)
    with PooledBrokerHttp(TIMEOUT_S, stranger) as http:
        (answer,) = http.fetch([strict_broker])
    assert answer.body is None


def test_files_that_cannot_be_used_are_named(certificates: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the TLS files for brokers cannot be used"):
        access(certificates, broker_key_file=str(tmp_path / "nothing")).tls()
    with pytest.raises(InputError, match="cannot be read: check broker_token_file"):
        access(certificates, broker_token_file=str(tmp_path / "nothing"))
    (tmp_path / "empty").write_text("\n")
    with pytest.raises(InputError, match="does not hold a token"):
        access(certificates, broker_token_file=str(tmp_path / "empty"))


def test_plain_access_carries_nothing() -> None:
    plain = BrokerAccess.from_settings(Settings())
    assert (plain.headers_for("http://b1:8080"), plain.tls(), plain.prefers_tls) == ({}, True, False)
