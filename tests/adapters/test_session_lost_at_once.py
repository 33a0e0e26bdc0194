"""A session that is lost in the moment it was opened is a lost session, not a crash."""

from __future__ import annotations

from typing import Any

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.zookeeper import session as sessions
from evenkeel.adapters.zookeeper.session import ZooKeeperSession
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.errors import SessionLostError
from support.waiting import scaled, wait_for


def test_session_that_expires_while_it_is_opened_is_lost(
    zookeeper: EmbeddedZooKeeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expire(client: KazooClient, *others: Any) -> None:
        twin = KazooClient(zookeeper.connect_string, timeout=scaled(10.0), client_id=client.client_id)
        twin.start(timeout=scaled(10.0))
        twin.stop()
        twin.close()
        wait_for(lambda: client.client_id is None, "the client knows that its session has expired")

    monkeypatch.setattr(sessions, "require_login", expire)
    opening = ZooKeeperSession(zookeeper.connect_string, scaled(10.0), scaled(10.0))
    with pytest.raises(SessionLostError, match="has expired"), opening:
        pytest.fail("the session counts as opened")
