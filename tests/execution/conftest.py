"""Fixtures of the execution room: a scene with a running fleet."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from evenkeel.adapters.lake.store import Lake
from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.model.connection import ClusterConnection
from support.fleets import running_fleet
from support.scenes import Scene


@pytest.fixture
def stage(
    zookeeper: EmbeddedZooKeeper, pulsar_root: str, client: KazooClient, tmp_path: Path
) -> Iterator[Callable[..., Scene]]:
    """Set a scene of a kind; the fleet ends with the test."""
    with ExitStack() as stack:

        def build(kind: str = "extensible", **settings: object) -> Scene:
            wishes = {"brokers": 3, "bundles": 24, "load_manager": kind} | settings
            fleet = stack.enter_context(running_fleet(zookeeper, pulsar_root, **wishes))
            connection = ClusterConnection(
                fleet.settings.cluster,
                zookeeper.connect_string,
                pulsar_root=pulsar_root,
                evenkeel_root=f"{pulsar_root}/evenkeel",
            )
            return Scene(fleet, Lake(str(tmp_path / "lake")), connection, client)

        yield build
