"""Fleets as processes of their own, as `python -m evenkeel.fleet` runs them."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from evenkeel.fleet.embedded_zookeeper import EmbeddedZooKeeper
from evenkeel.fleet.supervised import SupervisedProcess
from support.fleets import wait_for

START_TIMEOUT_S = 100.0


def start_process(zookeeper: EmbeddedZooKeeper, folder: Path, *options: str) -> tuple[SupervisedProcess, Path]:
    """A fleet's process, not yet started, and the file that tells when it serves."""
    ready = folder / "ready.json"
    command = [sys.executable, "-m", "evenkeel.fleet", "--zookeeper", zookeeper.connect_string]
    return SupervisedProcess([*command, "--ready-file", str(ready), *options], folder / "fleet.log"), ready


def wait_ready(ready: Path) -> dict[str, Any]:
    """What a fleet says of itself once it serves."""
    wait_for(ready.exists, "the fleet is ready", START_TIMEOUT_S)
    document: dict[str, Any] = json.loads(ready.read_text())
    return document


@contextmanager
def running_process(zookeeper: EmbeddedZooKeeper, folder: Path, *options: str) -> Iterator[dict[str, Any]]:
    """A fleet that serves while the block runs: its ready document."""
    process, ready = start_process(zookeeper, folder, *options)
    with process:
        yield wait_ready(ready)
