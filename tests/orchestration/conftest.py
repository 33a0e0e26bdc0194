"""A running fleet and a lake for each file whose tests need a running Airflow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from evenkeel.adapters.lake.store import Lake
from evenkeel.local.stack import FleetSize, LocalStack
from evenkeel.model.connection import ClusterConnection


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ClusterConnection]:
    size = FleetSize(brokers=4, bundles=64, load_manager="extensible", seed=3)
    with LocalStack(tmp_path_factory.mktemp("fleet"), size) as stack:
        yield stack.connection


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    return Lake(str(tmp_path_factory.mktemp("lake")))
