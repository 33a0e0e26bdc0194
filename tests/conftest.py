"""Fixtures and hooks for all tests: shared servers, markers by need, scheduling and coverage of the test processes."""

from __future__ import annotations

import json
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support import scheduling
from support.waiting import SLOWNESS_VARIABLE, measure_slowness, scaled

if TYPE_CHECKING:
    from kazoo.client import KazooClient
    from pyspark.sql import SparkSession

    from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper

CLEAN_UP_TIMEOUT_S = 30.0
COVERAGE_VARIABLE = "EVENKEEL_TEST_COVERAGE"
UNITS_FILE = "units.json"
NO_JAVA = """#!/bin/sh
echo "error: a test without a marker started Java; add pytest.mark.zookeeper, spark, airflow, faults or pulsar" >&2
exit 1
"""
_coverage = pytest.StashKey["Coverage"]()
_scratch = pytest.StashKey[Path]()


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        # PySpark takes a main module without a spec, such as a worker's, for a run of its own doctests and exits.
        sys.modules["__main__"].__spec__ = ModuleSpec("__main__", loader=None)
    if SLOWNESS_VARIABLE not in os.environ:
        # Workers and child processes inherit what the first process measured.
        os.environ[SLOWNESS_VARIABLE] = f"{measure_slowness(getattr(config.option, 'numprocesses', None) or 1):.2f}"
    config.stash[_scratch] = make_scratch()
    config.add_cleanup(lambda: shutil.rmtree(config.stash[_scratch]))
    if COVERAGE_VARIABLE in os.environ and not is_controller(config):
        from coverage import Coverage

        config.stash[_coverage] = Coverage(data_suffix=True)
        config.stash[_coverage].start()


def pytest_unconfigure(config: pytest.Config) -> None:
    measured = config.stash.get(_coverage, None)
    if measured is not None:
        measured.stop()
        measured.save()


def make_scratch() -> Path:
    """A folder for this process, with a JAVA_HOME whose Java only says that it is not to be started."""
    scratch = Path(tempfile.mkdtemp(prefix="evenkeel-tests-"))
    java = scratch / "bin" / "java"
    java.parent.mkdir()
    java.write_text(NO_JAVA)
    java.chmod(0o755)
    return scratch


def is_controller(config: pytest.Config) -> bool:
    """Whether this process only hands out tests to others."""
    return bool(getattr(config.option, "numprocesses", None)) and not hasattr(config, "workerinput")


def pytest_report_header() -> str:
    return f"deadlines are scaled by {os.environ[SLOWNESS_VARIABLE]} ({SLOWNESS_VARIABLE})"


# First, so that `-m` can select by the markers.
@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    scheduling.mark_needs(items)
    units = scheduling.name_units(items)
    items[:] = scheduling.longest_first(items, units)
    if hasattr(config, "workerinput"):
        file = Path(config.workerinput[UNITS_FILE])
        draft = file.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(units))
        draft.replace(file)
    for item in items:
        item.add_marker(pytest.mark.timeout(scaled(scheduling.timeout_of(item))), append=False)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    node.workerinput[UNITS_FILE] = str(node.config.stash[_scratch] / UNITS_FILE)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    return scheduling.SchedulingByNeed(config, log, config.stash[_scratch] / UNITS_FILE)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """A missing marker is an error: what is called quick finds a Java that refuses to start."""
    if not item.get_closest_marker(scheduling.QUICK):
        return (yield)
    usual = os.environ.get("JAVA_HOME")
    os.environ["JAVA_HOME"] = str(item.config.stash[_scratch])
    try:
        return (yield)
    finally:
        os.environ.pop("JAVA_HOME")
        if usual is not None:
            os.environ["JAVA_HOME"] = usual


def remove_tree(client: KazooClient, root: str) -> None:
    """Remove a path and all below it, level by level and without waiting for each node."""
    from kazoo.exceptions import NoNodeError

    levels = [[root] if client.exists(root) else []]
    while levels[-1]:
        asked = [(path, client.get_children_async(path)) for path in levels[-1]]
        found = [(path, result.get(timeout=scaled(CLEAN_UP_TIMEOUT_S))) for path, result in asked]
        levels.append([f"{path}/{child}" for path, children in found for child in children])
    for level in reversed(levels):
        for removal in [client.delete_async(path) for path in level]:
            # A broker's session may end, and take its nodes along, while this runs.
            with suppress(NoNodeError):
                removal.get(timeout=scaled(CLEAN_UP_TIMEOUT_S))


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    """A running ZooKeeper, shared by all tests of the process."""
    from evenkeel.local.embedded_zookeeper import EmbeddedZooKeeper

    with EmbeddedZooKeeper(Path(tmp_path_factory.mktemp("zookeeper"))) as server:
        yield server


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """A Spark session on two cores of this machine, shared by all tests of the process."""
    from evenkeel_spark.session import open_session

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
    with _session(zookeeper) as client:
        remove_tree(client, root)


@pytest.fixture
def client(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A session of the test's own, such as an operator or another tool has."""
    with _session(zookeeper) as client:
        yield client


@contextmanager
def _session(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    from kazoo.client import KazooClient

    client = KazooClient(zookeeper.connect_string, timeout=scaled(CLEAN_UP_TIMEOUT_S))
    client.start(timeout=scaled(CLEAN_UP_TIMEOUT_S))
    try:
        yield client
    finally:
        client.stop()
        client.close()
