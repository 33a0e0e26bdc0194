"""ZooKeeper that asks who one is: digest, SASL and TLS against real servers, ACLs, and secrets that show nowhere."""

from __future__ import annotations

import logging
import secrets
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

from evenkeel.adapters.cluster.source import open_cluster
from evenkeel.adapters.zookeeper.nodes import create
from evenkeel.adapters.zookeeper.security import client_options, load_security
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper, find_free_port
from evenkeel.model.connection import ClusterConnection, ZooKeeperScheme, ZooKeeperSecurity
from evenkeel.model.errors import InputError, UnavailableError
from support.commands import evenkeel
from support.waiting import scaled

SECRET = "correct-horse-battery"
DIGEST = ZooKeeperSecurity(ZooKeeperScheme.DIGEST, "evenkeel", SECRET)
WAIT_S = scaled(15.0)
ANYBODY = "world"


def acl_schemes(client: KazooClient, path: str) -> set[str]:
    acls, _ = client.get_acls(path)
    return {acl.id.scheme for acl in acls}


def write_file(folder: Path, text: str) -> Path:
    file = folder / "security.toml"
    file.write_text(text)
    return file


def write_digest_file(folder: Path) -> Path:
    (folder / "password").write_text(f"{SECRET}\n")
    return write_file(folder, f'scheme = "digest"\nuser = "evenkeel"\npassword_file = "{folder / "password"}"\n')


@pytest.fixture
def secured_root(zookeeper: EmbeddedZooKeeper) -> Iterator[str]:
    """A root of the test's own that is removed by the name whose nodes are in it."""
    root = f"/secured-{secrets.token_hex(4)}"
    yield root
    named = KazooClient(zookeeper.connect_string, auth_data=[("digest", f"evenkeel:{SECRET}")])
    named.start(timeout=WAIT_S)
    named.delete(root, recursive=True)
    named.stop()
    named.close()


def test_nodes_of_a_named_client_are_for_it_alone_and_pulsars_nodes_for_all(
    zookeeper: EmbeddedZooKeeper, secured_root: str, client: KazooClient
) -> None:
    own, shared = f"{secured_root}/evenkeel/own", f"{secured_root}/configuration"
    client.ensure_path(secured_root)
    with ZooKeeperSession(zookeeper.connect_string, WAIT_S, WAIT_S, DIGEST) as session:
        session.ensure_path(f"{secured_root}/evenkeel")
        session.commit([create("own", own, b"1"), create("shared", shared, b"1", is_pulsars=True)])
        assert session.get([own])[0] is not None
        with pytest.raises(NoAuthError):
            client.get(own)
        client.set(shared, b"2")
        assert acl_schemes(client, shared) == {ANYBODY}
        client.add_auth("digest", f"evenkeel:{SECRET}")
        assert acl_schemes(client, own) == {"digest"}


def test_open_nodes_stay_open(zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient) -> None:
    client.ensure_path(pulsar_root)
    security = replace(DIGEST, has_open_nodes=True)
    with ZooKeeperSession(zookeeper.connect_string, WAIT_S, WAIT_S, security) as session:
        session.commit([create("own", f"{pulsar_root}/own", b"1")])
        assert acl_schemes(client, f"{pulsar_root}/own") == {ANYBODY}


def test_reader_without_the_name_is_told_what_it_lacks(zookeeper: EmbeddedZooKeeper, secured_root: str) -> None:
    connection = ClusterConnection("lab", zookeeper.connect_string, pulsar_root=secured_root, security=DIGEST)
    path = f"{secured_root}/secret"
    with ZooKeeperSession(connection.zookeeper, WAIT_S, WAIT_S, DIGEST) as session:
        session.ensure_path(path)
    with open_cluster(connection) as source:
        assert source.tree.get([path])[0] is not None
    with (
        open_cluster(replace(connection, security=ZooKeeperSecurity())) as source,
        pytest.raises(InputError, match=f"does not let this user read {path}: grant it the permission"),
    ):
        source.tree.get([path])


def test_commands_take_the_security_file_and_never_show_the_secret(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, client: KazooClient
) -> None:
    secured = ("--zookeeper-security", write_digest_file(tmp_path))
    client.ensure_path("/admin/clusters/secured")
    place = ("--zookeeper", zookeeper.connect_string, "--cluster", "secured")
    answers = [evenkeel(*secured, "stop", *place, "--reason", "test"), evenkeel(*secured, "resume", *place)]
    client.add_auth("digest", f"evenkeel:{SECRET}")
    try:
        assert [answer.code for answer in answers] == [0, 0], answers
        assert acl_schemes(client, "/evenkeel/secured/fence") == {"digest"}
        assert SECRET not in "".join(answer.out + answer.err for answer in answers)
    finally:
        client.delete("/admin/clusters/secured")
        # The tests after this one have no name; what was there before this one stays.
        client.delete(
            "/evenkeel/secured" if acl_schemes(client, "/evenkeel") == {ANYBODY} else "/evenkeel", recursive=True
        )


def test_secret_shows_in_no_text(tmp_path: Path) -> None:
    security = load_security(write_digest_file(tmp_path), {})
    assert security == DIGEST
    connection = ClusterConnection("lab", "zk:2181", security=security)
    assert SECRET not in f"{security!r} {security} {connection!r} {connection}"


def test_password_may_come_from_the_environment(tmp_path: Path) -> None:
    file = write_file(tmp_path, 'scheme = "sasl"\nuser = "evenkeel"\npassword_variable = "ZK"\n')
    assert load_security(file, {"ZK": SECRET}) == replace(DIGEST, scheme=ZooKeeperScheme.SASL)
    with pytest.raises(InputError, match="the environment has no variable ZK: set it"):
        load_security(file, {})


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('password = "x"', "unknown key 'password'"),
        ('scheme = "kerberos"', "scheme = 'kerberos' is unknown"),
        ('scheme = "digest"', "needs a user and a password"),
        ('user = "x"', "a ZooKeeper user is given without a scheme"),
        ('tls = "yes"', "tls has the wrong type"),
        ('ca_file = "/no/such/file"', "ca_file = /no/such/file is not a file"),
        ('password_file = "/no/such/file"', "the password file /no/such/file cannot be read"),
        ('password_file = "a"\npassword_variable = "b"', "are both set"),
        ("scheme = ", "is not TOML"),
    ],
)
def test_wrong_security_files_are_refused_by_name(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        load_security(write_file(tmp_path, text), {})


def test_absent_security_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read ZooKeeper's security file .*absent.toml"):
        load_security(tmp_path / "absent.toml", {})


def make_certificate(folder: Path, name: str, issuer: Path | None = None) -> Path:
    """A key and a certificate for the loopback address, in one PEM file; signed by itself or by an issuer."""
    key, certificate = folder / f"{name}.key", folder / f"{name}.crt"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}"]
    command += ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    if issuer is not None:
        command += ["-CA", str(issuer.with_suffix(".crt")), "-CAkey", str(issuer.with_suffix(".key"))]
        command += ["-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(command, check=True, capture_output=True)
    both = folder / f"{name}.pem"
    both.write_text(key.read_text() + certificate.read_text())
    return both


@pytest.fixture(scope="module")
def tls_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tls")
    authority = make_certificate(folder, "authority")
    for name in ("server", "evenkeel"):
        make_certificate(folder, name, authority)
    make_certificate(folder, "stranger")
    return folder


@pytest.fixture(scope="module")
def tls_hosts(tls_folder: Path) -> Iterator[str]:
    """A server that takes TLS with a client's certificate only, on a port of its own."""
    port = find_free_port()
    settings = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "ssl.keyStore.location": str(tls_folder / "server.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(tls_folder / "authority.crt"),
        "ssl.trustStore.type": "PEM",
        "ssl.clientAuth": "need",
    }
    with EmbeddedZooKeeper(tls_folder / "zookeeper", settings=settings):
        yield f"127.0.0.1:{port}"


def tls_security(folder: Path, authority: str = "authority", own: str | None = "evenkeel") -> ZooKeeperSecurity:
    return ZooKeeperSecurity(
        has_tls=True,
        ca_file=str(folder / f"{authority}.crt"),
        certificate_file=str(folder / f"{own}.crt") if own else None,
        key_file=str(folder / f"{own}.key") if own else None,
    )


def test_session_by_tls_with_a_certificate_of_its_own(tls_hosts: str, tls_folder: Path) -> None:
    with ZooKeeperSession(tls_hosts, WAIT_S, WAIT_S, tls_security(tls_folder)) as session:
        session.ensure_path("/by-tls")
        assert session.get(["/by-tls"])[0] is not None


@pytest.mark.parametrize(
    ("authority", "own"), [("stranger", "evenkeel"), ("authority", None), ("authority", "stranger")]
)
def test_wrong_certificates_are_not_let_through(
    tls_hosts: str, tls_folder: Path, authority: str, own: str | None
) -> None:
    security = tls_security(tls_folder, authority, own)
    with pytest.raises(UnavailableError, match="did not answer"), ZooKeeperSession(tls_hosts, 3.0, 3.0, security):
        pass


@pytest.fixture(scope="module")
def sasl_hosts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that knows the user `evenkeel` by DIGEST-MD5."""
    folder = tmp_path_factory.mktemp("sasl")
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    (folder / "jaas.conf").write_text(f'Server {{ {module} required user_evenkeel="{SECRET}"; }};\n')
    with EmbeddedZooKeeper(
        folder / "zookeeper",
        settings={"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
        java_options=[f"-Djava.security.auth.login.config={folder / 'jaas.conf'}"],
    ) as server:
        yield server.connect_string


def test_session_by_sasl_owns_its_nodes(sasl_hosts: str) -> None:
    security = replace(DIGEST, scheme=ZooKeeperScheme.SASL)
    with ZooKeeperSession(sasl_hosts, WAIT_S, WAIT_S, security) as session:
        session.commit([create("own", "/by-sasl", b"1")])
        assert session.get(["/by-sasl"])[0] is not None
    with (
        ZooKeeperSession(sasl_hosts, WAIT_S, WAIT_S) as stranger,
        pytest.raises(InputError, match="does not let this user read /by-sasl"),
    ):
        stranger.get(["/by-sasl"])


def test_wrong_sasl_password_is_refused(sasl_hosts: str) -> None:
    security = replace(DIGEST, scheme=ZooKeeperScheme.SASL, password="wrong")
    sentence = "rejected the credentials of 'evenkeel': check the user and the password"
    with pytest.raises(InputError, match=sentence), ZooKeeperSession(sasl_hosts, 3.0, 3.0, security):
        pass


@pytest.fixture
def everything_logged(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    """Loggers as somebody sets them who looks for a fault, and wants every detail."""
    names = (None, "kazoo", "kazoo.client", "kazoo.protocol.connection", "evenkeel")
    before = {name: logging.getLogger(name).level for name in names}
    for name in names:
        logging.getLogger(name).setLevel(1)
    with caplog.at_level(1):
        yield caplog
    for name, level in before.items():
        logging.getLogger(name).setLevel(level)


def require_discretion(logs: pytest.LogCaptureFixture) -> None:
    told = [record for record in logs.records if record.name.startswith("kazoo")]
    assert any("connection established" in record.getMessage() for record in told), "kazoo still says what it does"
    # A SASL answer is not the password, but enough to try passwords on.
    assert not [record for record in told if "request" in record.getMessage()]
    assert SECRET not in "".join(f"{record.getMessage()} {record.args!r}" for record in logs.records)


def test_digest_shows_in_no_log(zookeeper: EmbeddedZooKeeper, everything_logged: pytest.LogCaptureFixture) -> None:
    with ZooKeeperSession(zookeeper.connect_string, WAIT_S, WAIT_S, DIGEST) as session:
        session.get(["/"])
    require_discretion(everything_logged)


def test_sasl_login_shows_in_no_log(sasl_hosts: str, everything_logged: pytest.LogCaptureFixture) -> None:
    security = replace(DIGEST, scheme=ZooKeeperScheme.SASL)
    with ZooKeeperSession(sasl_hosts, WAIT_S, WAIT_S, security) as session:
        session.get(["/"])
    require_discretion(everything_logged)


def test_plain_security_asks_for_nothing() -> None:
    assert client_options(ZooKeeperSecurity()) == {}
