"""Rights to write, found out without writing."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from kazoo.client import KazooClient
from kazoo.security import make_acl

from evenkeel.adapters.fencing import fence
from evenkeel.adapters.fencing.fence import require_rights
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import RunStoppedError, UnconfirmedError

NODES = 7


@pytest.fixture
def session(zookeeper: EmbeddedZooKeeper) -> Iterator[ZooKeeperSession]:
    with ZooKeeperSession(zookeeper.connect_string, 10.0, 10.0) as opened:
        yield opened


@pytest.fixture
def paths(client: KazooClient) -> Iterator[list[str]]:
    home = f"/rehearsal-{secrets.token_hex(4)}"
    made = [client.create(f"{home}/{number}", b"as it was", makepath=True) for number in range(NODES)]
    yield made
    client.delete(home, recursive=True)


@pytest.fixture(autouse=True)
def small_transactions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fence, "NODES_A_TRANSACTION", 3)


def test_nothing_is_written(session: ZooKeeperSession, client: KazooClient, paths: list[str]) -> None:
    before = [client.exists(path).mzxid for path in paths]
    require_rights(session, paths)
    assert [client.exists(path).mzxid for path in paths] == before


@pytest.mark.parametrize("place", range(NODES))
def test_node_that_must_not_be_written_is_named(
    session: ZooKeeperSession, client: KazooClient, paths: list[str], place: int
) -> None:
    client.set_acls(paths[place], [make_acl("world", "anyone", read=True)])
    with pytest.raises(RunStoppedError, match=f"forbids this user to write {paths[place]}: grant it permission"):
        require_rights(session, paths)


def test_nodes_that_are_not_there_have_no_say(session: ZooKeeperSession, paths: list[str]) -> None:
    require_rights(session, [f"{paths[0]}/nowhere", *paths])
    require_rights(session, [f"{paths[0]}/nowhere"])
    require_rights(session, [])


@pytest.mark.parametrize("change", ["set", "delete"])
def test_node_that_changes_meanwhile_does_not_matter(
    session: ZooKeeperSession, client: KazooClient, paths: list[str], change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, changed = session.commit, []

    def change_then_commit(operations):  # type: ignore[no-untyped-def]
        if not changed:
            changed.append(paths[1])
            client.set(paths[1], b"by somebody else") if change == "set" else client.delete(paths[1])
        return commit(operations)

    monkeypatch.setattr(session, "commit", change_then_commit)
    client.set_acls(paths[2], [make_acl("world", "anyone", read=True)])
    with pytest.raises(RunStoppedError, match=f"forbids this user to write {paths[2]}"):
        require_rights(session, paths)


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_lost_answer_is_asked_for_again(
    session: ZooKeeperSession, paths: list[str], lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit, answers = session.commit, []

    def lose_then_commit(operations):  # type: ignore[no-untyped-def]
        answers.append(operations)
        if len(answers) <= lost:
            raise UnconfirmedError("no answer", "try again")
        return commit(operations)

    monkeypatch.setattr(session, "commit", lose_then_commit)
    if lost == fence.MOST_ATTEMPTS:
        with pytest.raises(UnconfirmedError):
            require_rights(session, paths[:1])
    else:
        require_rights(session, paths[:1])
        assert len(answers) == lost + 1
