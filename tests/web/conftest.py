"""A fleet, a lake with plans and an Airflow with the page, shared by the tests of a process."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.local.local_airflow import LocalAirflow
from support.web_scene import WebScene, open_airflow, open_scene


@pytest.fixture(scope="session")
def scene(zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebScene]:
    with open_scene(zookeeper, Path(tmp_path_factory.mktemp("web-scene"))) as scene:
        yield scene


@pytest.fixture(scope="session")
def airflow(scene: WebScene, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAirflow]:
    with open_airflow(scene, Path(tmp_path_factory.mktemp("web-airflow"))) as airflow:
        yield airflow
