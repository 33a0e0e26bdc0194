"""The reader of ZooKeeper's transaction log, against what a live server writes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError

from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from faults.txn_log import Transaction, TxnLogError, TxnType, read_file, read_log

pytestmark = pytest.mark.zookeeper

BAD_VERSION = -103
ROLLED_BACK = -2
START_TIMEOUT_S = 30.0


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tmp_path_factory.mktemp("log"))


@pytest.fixture(scope="module")
def client(data_dir: Path) -> Iterator[KazooClient]:
    """A session with a server whose log nobody else writes to."""
    with EmbeddedZooKeeper(data_dir) as server:
        client = KazooClient(server.connect_string, timeout=START_TIMEOUT_S)
        client.start(timeout=START_TIMEOUT_S)
        yield client
        client.stop()
        client.close()


def written_since(data_dir: Path, mark: int) -> list[Transaction]:
    return read_log(data_dir, mark)


def mark_of(client: KazooClient) -> int:
    return int(client.create("/mark", sequence=True, include_data=True)[1].czxid)


def test_single_writes_are_read_with_session_path_data_and_version(client: KazooClient, data_dir: Path) -> None:
    mark = mark_of(client)
    client.create("/a", b"one")
    client.set("/a", b"two")
    client.create("/b", ephemeral=True)
    client.delete("/a")
    found = written_since(data_dir, mark)
    told = [(t.type, o.path, o.data, o.version, o.is_ephemeral) for t in found for o in t.operations]
    assert told == [
        (TxnType.CREATE, "/a", b"one", 0, False),
        (TxnType.SET_DATA, "/a", b"two", 1, False),
        (TxnType.CREATE, "/b", b"", 0, True),
        (TxnType.DELETE, "/a", b"", 0, False),
    ]
    assert {t.session for t in found} == {client.client_id[0]}
    assert [t.zxid for t in found] == list(range(mark + 1, mark + 5))
    assert not any(t.is_refused or t.is_multi for t in found)


def test_multi_is_one_transaction_with_its_checks(client: KazooClient, data_dir: Path) -> None:
    client.create("/fence")
    mark = mark_of(client)
    transaction = client.transaction()
    transaction.check("/fence", 0)
    transaction.create("/entry", b"done")
    transaction.set_data("/fence", b"next", 0)
    transaction.commit()
    (multi,) = written_since(data_dir, mark)
    assert multi.is_multi
    assert [(o.type, o.path, o.data, o.version) for o in multi.operations] == [
        (TxnType.CHECK, "/fence", b"", 0),
        (TxnType.CREATE, "/entry", b"done", 0),
        (TxnType.SET_DATA, "/fence", b"next", 1),
    ]


def test_refused_multi_is_in_the_log_with_its_error(client: KazooClient, data_dir: Path) -> None:
    client.ensure_path("/guard")
    mark = mark_of(client)
    transaction = client.transaction()
    transaction.create("/never", b"")
    transaction.check("/guard", 7)
    transaction.delete("/guard")
    transaction.commit()
    (multi,) = written_since(data_dir, mark)
    assert multi.is_refused
    assert [(o.type, o.error) for o in multi.operations] == [
        (TxnType.CREATE, 0),
        (TxnType.ERROR, BAD_VERSION),
        (TxnType.ERROR, ROLLED_BACK),
    ]
    assert client.exists("/never") is None


def test_refused_single_write_is_in_the_log(client: KazooClient, data_dir: Path) -> None:
    client.ensure_path("/single")
    mark = mark_of(client)
    with pytest.raises(BadVersionError):
        client.set("/single", b"", version=9)
    (refused,) = written_since(data_dir, mark)
    assert (refused.type, refused.operations[0].error) == (TxnType.ERROR, BAD_VERSION)


def test_sessions_that_begin_and_end_are_read(client: KazooClient, data_dir: Path) -> None:
    mark = mark_of(client)
    other = KazooClient(",".join(f"{host}:{port}" for host, port in client.hosts), timeout=START_TIMEOUT_S)
    other.start(timeout=START_TIMEOUT_S)
    session = other.client_id[0]
    other.stop()
    other.close()
    assert [(t.type, t.session) for t in written_since(data_dir, mark)] == [
        (TxnType.CREATE_SESSION, session),
        (TxnType.CLOSE_SESSION, session),
    ]


def test_damaged_entry_is_refused_by_its_place(client: KazooClient, data_dir: Path, tmp_path: Path) -> None:
    client.create("/damaged", b"some bytes to damage")
    (source,) = data_dir.rglob("log.*")
    content = source.read_bytes().replace(b"some bytes to damage", b"same bytes to damage")
    copy = tmp_path / source.name
    copy.write_bytes(content)
    with pytest.raises(TxnLogError, match="wrong checksum at byte"):
        list(read_file(copy))
    copy.write_bytes(b"something else")
    with pytest.raises(TxnLogError, match="is not a ZooKeeper transaction log"):
        list(read_file(copy))
