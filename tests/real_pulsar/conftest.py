"""What the tests of real brokers share."""

from __future__ import annotations

from typing import Any

import pytest

from evenkeel.adapters.zookeeper.session import ZooKeeperSession


@pytest.fixture
def writer_sessions(monkeypatch: pytest.MonkeyPatch) -> list[ZooKeeperSession]:
    """The writer's sessions as it opens them, so that a test can end the last one."""
    opened: list[ZooKeeperSession] = []
    enter = ZooKeeperSession.__enter__

    def remember(session: ZooKeeperSession) -> Any:
        opened.append(session)
        return enter(session)

    monkeypatch.setattr(ZooKeeperSession, "__enter__", remember)
    return opened
