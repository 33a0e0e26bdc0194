"""Fixtures that every room may use: one real ZooKeeper a test run, and a fresh Pulsar root a test."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from pyspark.sql import SparkSession

from evenkeel.fleet.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel_spark.session import open_session

CLEAN_UP_TIMEOUT_S = 30.0


def remove_tree(client: KazooClient, root: str) -> None:
    """Remove a path and all below it, level by level and without waiting for each node."""
    levels = [[root] if client.exists(root) else []]
    while levels[-1]:
        asked = [(path, client.get_children_async(path)) for path in levels[-1]]
        found = [(path, result.get(timeout=CLEAN_UP_TIMEOUT_S)) for path, result in asked]
        levels.append([f"{path}/{child}" for path, children in found for child in children])
    for level in reversed(levels):
        for removal in [client.delete_async(path) for path in level]:
            # A broker's session may end, and take its nodes along, while this runs.
            with suppress(NoNodeError):
                removal.get(timeout=CLEAN_UP_TIMEOUT_S)


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A running ZooKeeper, shared by all tests of the run."""
    with EmbeddedZooKeeper(Path(tmp_path_factory.mktemp("zookeeper"))) as server:
        yield server


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """A Spark session on two cores of this machine, shared by all tests of the run."""
    # It says goodbye when Python ends, to a stream that pytest has closed by then.
    logging.getLogger("py4j").setLevel(logging.ERROR)
    session = open_session("evenkeel tests", master="local[2]")
    yield session
    session.stop()


@pytest.fixture
def pulsar_root(zookeeper: EmbeddedZooKeeper) -> Iterator[str]:
    """A root path for Pulsar's nodes that no other test uses; removed afterwards."""
    root = f"/test-{secrets.token_hex(4)}"
    yield root
    client = KazooClient(zookeeper.connect_string, timeout=CLEAN_UP_TIMEOUT_S)
    client.start(timeout=CLEAN_UP_TIMEOUT_S)
    try:
        remove_tree(client, root)
    finally:
        client.stop()
        client.close()


@pytest.fixture
def client(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A session of the test's own, such as an operator or another tool has."""
    client = KazooClient(zookeeper.connect_string, timeout=CLEAN_UP_TIMEOUT_S)
    client.start(timeout=CLEAN_UP_TIMEOUT_S)
    yield client
    client.stop()
    client.close()
