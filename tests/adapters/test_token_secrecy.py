"""Where a super-user's token goes: over TLS only, and only to brokers whose registration is proved."""

from __future__ import annotations

import json
import secrets
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from adapters.test_broker_access import certify
from evenkeel.adapters.brokers.access import BrokerAccess
from evenkeel.adapters.cluster.kind import EXTENSIBLE_CLASS
from evenkeel.adapters.cluster.reader import read_cluster
from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection
from evenkeel.model.errors import EvenkeelError, InputError
from evenkeel.model.settings import Settings
from evenkeel.model.timestamps import parse_time

NOW = parse_time("2026-01-31T03:00:00Z")
TOKEN = "abc.def"
Serve = Callable[[bool], tuple[str, list[str | None]]]


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("certificates")
    certify(folder, "broker", "-addext", "subjectAltName=IP:127.0.0.1")
    return folder


@pytest.fixture
def serve(certificates: Path) -> Iterator[Serve]:
    """Starts web services that keep the tokens that they were shown; the caller says which speak TLS."""
    with ExitStack() as stack:

        def start(has_tls: bool) -> tuple[str, list[str | None]]:
            tokens: list[str | None] = []

            class Handler(BaseHTTPRequestHandler):
                def do_GET(self) -> None:
                    tokens.append(self.headers.get("Authorization"))
                    self.send_response(200)
                    self.end_headers()
                    self.wfile.write(b'{"clusterName": "another"}')

                def log_message(self, format: str, *args: object) -> None:
                    """Keep the test's output quiet."""

            server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
            if has_tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
                context.load_cert_chain(certificates / "broker.pem", certificates / "broker.key")
                server.socket = context.wrap_socket(server.socket, server_side=True)
            stack.callback(server.shutdown)
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
            return f"{'https' if has_tls else 'http'}://127.0.0.1:{server.server_port}", tokens

        yield start


@pytest.fixture
def root(client: KazooClient) -> Iterator[str]:
    path = f"/secrecy-{secrets.token_hex(4)}"
    client.ensure_path(f"{path}/admin/clusters/lab")
    yield path
    client.delete(path, recursive=True)


def register(client: KazooClient, root: str, broker_id: str, ephemeral: bool = True, **urls: str) -> None:
    document = {"loadManagerClassName": EXTENSIBLE_CLASS, **urls}
    path = f"{root}/loadbalance/brokers/{broker_id}"
    client.create(path, json.dumps(document).encode(), ephemeral=ephemeral, makepath=True)


def read(zookeeper: EmbeddedZooKeeper, root: str, access: BrokerAccess) -> EvenkeelError:
    """Read a cluster of brokers that all belong to another one, which is refused at the latest then."""
    connection = ClusterConnection("lab", zookeeper.connect_string, pulsar_root=root)
    with open_cluster(connection, access) as source, pytest.raises(EvenkeelError) as caught:
        read_cluster(source, "lab", Settings(), NOW)
    return caught.value


def test_token_is_not_sent_over_plain_http(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, root: str, serve: Serve
) -> None:
    url, tokens = serve(False)
    register(client, root, "127.0.0.1:8080", webServiceUrl=url)
    refusal = read(zookeeper, root, BrokerAccess(token=TOKEN))
    assert str(refusal) == (
        "broker 127.0.0.1:8080 offers plain HTTP only, over which the token is not sent: "
        "enable TLS on the brokers' web service, or set broker_token_over_plain_http = true"
    )
    assert tokens == []


def test_setting_allows_plain_http(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, root: str, serve: Serve, tmp_path: Path
) -> None:
    url, tokens = serve(False)
    (tmp_path / "token").write_text(TOKEN)
    settings = Settings(broker_token_file=str(tmp_path / "token"), broker_token_over_plain_http=True)
    register(client, root, "127.0.0.1:8080", webServiceUrl=url)
    read(zookeeper, root, BrokerAccess.from_settings(settings))
    assert set(tokens) == {f"Bearer {TOKEN}"}


def test_token_goes_over_tls_where_a_broker_offers_both(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, root: str, serve: Serve, certificates: Path
) -> None:
    (plain, plain_tokens), (secure, tokens) = serve(False), serve(True)
    register(client, root, "127.0.0.1:8080", webServiceUrl=plain, webServiceUrlTls=secure)
    read(zookeeper, root, BrokerAccess(token=TOKEN, ca_file=str(certificates / "broker.pem")))
    assert (plain_tokens, set(tokens)) == ([], {f"Bearer {TOKEN}"})


@pytest.mark.parametrize(
    ("broker_id", "is_ephemeral", "hosts", "told"),
    [
        ("b1.example.com:8080", True, None, "is registered at 127.0.0.1, which is not its own host"),
        ("127.0.0.1:8080", False, None, "does not end with a session, so it proves no live broker"),
        ("127.0.0.1:8080", True, r"b\d+\.example\.com", "which broker_token_hosts does not match"),
    ],
)
def test_registration_that_proves_nothing_gets_no_token(
    zookeeper: EmbeddedZooKeeper,
    client: KazooClient,
    root: str,
    serve: Serve,
    certificates: Path,
    broker_id: str,
    is_ephemeral: bool,
    hosts: str | None,
    told: str,
) -> None:
    url, tokens = serve(True)
    register(client, root, broker_id, is_ephemeral, webServiceUrlTls=url)
    access = BrokerAccess(token=TOKEN, ca_file=str(certificates / "broker.pem"), token_hosts=hosts)
    assert told in str(read(zookeeper, root, access))
    assert tokens == []


def test_pattern_of_hosts_replaces_the_broker_id(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, root: str, serve: Serve, certificates: Path
) -> None:
    url, tokens = serve(True)
    register(client, root, "b1.example.com:8080", webServiceUrlTls=url)
    access = BrokerAccess(token=TOKEN, ca_file=str(certificates / "broker.pem"), token_hosts=r"127\.0\.0\.\d+")
    read(zookeeper, root, access)
    assert set(tokens) == {f"Bearer {TOKEN}"}


def test_without_a_token_any_registration_is_read(
    zookeeper: EmbeddedZooKeeper, client: KazooClient, root: str, serve: Serve
) -> None:
    url, tokens = serve(False)
    register(client, root, "b1.example.com:8080", ephemeral=False, webServiceUrl=url)
    assert "belongs to cluster 'another'" in str(read(zookeeper, root, BrokerAccess()))
    assert set(tokens) == {None}


def test_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"broker_token_hosts = '\(' is not a regular expression"):
        Settings(broker_token_hosts="(")
