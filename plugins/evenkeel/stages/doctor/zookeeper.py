"""Probes of ZooKeeper: servers and versions, and what this user may read and write there."""

from __future__ import annotations

import re
import socket
import uuid
from collections.abc import Iterable, Iterator

from evenkeel.adapters.cluster.findings import name_first
from evenkeel.adapters.cluster.policy_reader import require_cluster
from evenkeel.adapters.zookeeper.nodes import Operation, create, delete, set_data
from evenkeel.adapters.zookeeper.paths import EvenkeelPaths, PulsarPaths
from evenkeel.adapters.zookeeper.rights import find_forbidden
from evenkeel.adapters.zookeeper.session import ZooKeeperSession, open_session, open_stores
from evenkeel.model.connection import ClusterConnection, ZooKeeperScheme
from evenkeel.model.snapshot import LoadManager
from evenkeel.stages.doctor.findings import Told, ok, problem, warning

DEFAULT_PORT = 2181
FOUR_LETTER_TIMEOUT_S = 3.0
LARGEST_ANSWER_BYTES = 65_536
_VERSION = re.compile(r"Zookeeper version: ([^\s,-]+)")
_MODE = re.compile(r"^Mode: (\S+)", re.MULTILINE)
# Nodes of bundles whose permissions are tried out; brokers create them all in the same way.
MOST_BUNDLES_TRIED = 100
GRANTS = "docs/reference/permissions.md lists what each command needs"


def look_at_servers(connection: ClusterConnection) -> Iterable[Told]:
    """Open a session with each store, and ask each server for its version."""
    with open_session(connection) as session:
        session.stat("/")
        yield ok("ZooKeeper", f"connected to {connection.zookeeper} {_tell_identity(connection)}")
    if connection.configuration_zookeeper is not None:
        with open_session(connection, hosts=connection.configuration_zookeeper) as session:
            session.stat("/")
            yield ok("configuration store", f"connected to {connection.configuration_zookeeper}")
    yield from _look_at_each(connection)


def _tell_identity(connection: ClusterConnection) -> str:
    security = connection.security
    user = "without authentication" if security.scheme is ZooKeeperScheme.NONE else f"as {security.user!r}"
    return f"{user}{', over TLS' if security.has_tls else ''}"


def _look_at_each(connection: ClusterConnection) -> Iterator[Told]:
    if connection.security.has_tls:
        yield ok("ZooKeeper version", "unknown: the servers are asked without TLS only")
        return
    versions: dict[str, str] = {}
    silent: list[str] = []
    for host in connection.zookeeper.split(","):
        try:
            answer = _ask(host)
        except OSError as error:
            silent.append(f"{host} ({error.strerror or error})")
            continue
        version, mode = _VERSION.search(answer), _MODE.search(answer)
        versions[host] = f"{version[1]} ({mode[1] if mode else 'mode unknown'})" if version else "unknown"
    if silent:
        told = f"{len(silent)} of {len(silent) + len(versions)} servers do not answer: {name_first(silent)}"
        yield warning("ZooKeeper servers", told, "start them: the ensemble needs a majority")
    if versions and all(version == "unknown" for version in versions.values()):
        yield ok("ZooKeeper version", "unknown: the four-letter word srvr is not allowed, which is ZooKeeper's default")
    elif versions:
        yield ok("ZooKeeper version", ", ".join(f"{host}: {version}" for host, version in versions.items()))


def _ask(host: str) -> str:
    name, _, port = host.strip().rpartition(":")
    address = (name, int(port)) if name else (host.strip(), DEFAULT_PORT)
    with socket.create_connection(address, FOUR_LETTER_TIMEOUT_S) as connection:
        connection.sendall(b"srvr")
        parts = b""
        while len(parts) < LARGEST_ANSWER_BYTES and (chunk := connection.recv(4096)):
            parts += chunk
    return parts.decode(errors="replace")


def look_at_reading(connection: ClusterConnection) -> Iterable[Told]:
    """Read one node of every kind that a snapshot reads."""
    pulsar = PulsarPaths.of(connection)
    with open_stores(connection) as (session, configuration):
        require_cluster(configuration, pulsar, connection.cluster)
        trees = [pulsar.brokers, pulsar.all_local_policies, *_owners(session, pulsar)]
        read = sum(_read_down(session, path) for path in trees)
        read += _read_down(session, connection.home)
        session.get([pulsar.configuration, *(pulsar.leader(kind) for kind in LoadManager)])
        read += _read_down(configuration, pulsar.cluster(connection.cluster))
    yield ok("rights to read", f"one node of every kind can be read ({read} were)")


def _read_down(session: ZooKeeperSession, path: str) -> int:
    """Read a node and the first below it, down to the last level; returns how many there were."""
    count = 0
    while True:
        (node,) = session.get([path])
        if node is None:
            return count
        count += 1
        names = session.child_names(path)
        if not names:
            return count
        path = f"{path}/{names[0]}"


def look_at_writing(connection: ClusterConnection) -> Iterable[Told]:
    """Rehearse what the writer writes, in transactions that cannot succeed."""
    with open_session(connection) as session:
        for check, operations, why in _rehearsals(session, connection):
            path = find_forbidden(session, operations)
            if path is None:
                yield ok(check, why)
            else:
                told = f"ZooKeeper's access control forbids this user to write {path}"
                yield problem(check, told, f"grant it the rights; {GRANTS}")


def _rehearsals(session: ZooKeeperSession, connection: ClusterConnection) -> Iterator[tuple[str, list[Operation], str]]:
    """What is tried out: the check's name, the operations, and what it means if they are allowed."""
    pulsar, own = PulsarPaths.of(connection), EvenkeelPaths(connection.home)
    operations: list[Operation] = []
    for path in _existing(session, [own.home, own.plans, own.draining]):
        operations += _make_and_remove(path)
    if not operations:
        # What it creates there will be its own, so the right to delete it is not needed here.
        operations += _make_and_remove(_nearest_above(session, own.home))[:1]
    (fence,) = session.get([own.fence])
    if fence is not None:
        operations.append(set_data("write", fence.path, fence.data, fence.version))
    yield "rights to write Evenkeel's nodes", operations, f"{own.home} can be written"
    (switches,) = session.get([pulsar.configuration])
    if switches is not None:
        operations = [set_data("write", switches.path, switches.data, switches.version)]
    else:
        operations = _make_and_remove(_nearest_above(session, pulsar.configuration))
    yield "rights to pause Pulsar's balancer", operations, f"{pulsar.configuration} can be written"
    bundles = _some_bundles(session, pulsar)
    if bundles:
        nodes = [node for node in session.get(bundles) if node is not None]
        operations = [set_data("write", node.path, node.data, node.version) for node in nodes]
        yield "rights to move bundles", operations, f"{len(nodes)} bundles of the cluster could be written"


def _make_and_remove(parent: str) -> list[Operation]:
    path = f"{parent.rstrip('/')}/doctor-{uuid.uuid4().hex}"
    return [create("create", path, b""), delete("delete", path)]


def _nearest_above(session: ZooKeeperSession, path: str) -> str:
    parent = path.rpartition("/")[0] or "/"
    return parent if parent == "/" or session.stat(parent) is not None else _nearest_above(session, parent)


def _existing(session: ZooKeeperSession, paths: Iterable[str]) -> list[str]:
    return [path for path in paths if session.stat(path) is not None]


def _owners(session: ZooKeeperSession, pulsar: PulsarPaths) -> list[str]:
    return _existing(session, dict.fromkeys(pulsar.owners(kind) for kind in LoadManager))


def _some_bundles(session: ZooKeeperSession, pulsar: PulsarPaths) -> list[str]:
    """Nodes of bundles that the writer itself would change: those of the metadata-store table view."""
    found: list[str] = []
    root = pulsar.owners(LoadManager.EXTENSIBLE)
    for tenant in session.child_names(root):
        for namespace in session.child_names(f"{root}/{tenant}"):
            parent = f"{root}/{tenant}/{namespace}"
            found += [f"{parent}/{name}" for name in session.child_names(parent)]
            if len(found) >= MOST_BUNDLES_TRIED:
                return found[:MOST_BUNDLES_TRIED]
    return found
