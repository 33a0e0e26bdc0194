"""Fixtures of the adapters: brokers that answer as a test wants."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from support.answering_brokers import Start, answering_brokers


@pytest.fixture
def start() -> Iterator[Start]:
    with answering_brokers() as starting:
        yield starting
